"""Optimizers, schedules, parametrisations and what of a model is trained."""
