"""Runs of other programs: tables that name their columns."""
