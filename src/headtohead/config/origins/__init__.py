"""Configurations that start from something: a run, its weights or a published checkpoint."""
