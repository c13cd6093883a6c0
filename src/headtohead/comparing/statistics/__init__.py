"""What a difference between arms is worth: pure functions on numpy arrays, one idea per file."""
