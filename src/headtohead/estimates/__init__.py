"""Estimates of what runs cost before they start: FLOPs, time per step and disk space."""
