"""Comparison turns records into verdicts, without torch."""
