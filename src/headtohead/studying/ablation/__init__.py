"""Ablations: the arms of a study made from factors and their levels."""
