"""Tuning of the arms of a study: so many trials over one space for each of them, chosen on validation."""
