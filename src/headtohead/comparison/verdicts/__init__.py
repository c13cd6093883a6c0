"""Verdicts on pairs of arms: evidence, tests, families of contrasts and their wording."""
