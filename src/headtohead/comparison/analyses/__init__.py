"""Analyses say more about runs than verdicts do: effects, rankings, scaling laws, curves and tuning."""
