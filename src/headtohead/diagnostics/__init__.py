"""Diagnostics answer questions before or without a run."""
