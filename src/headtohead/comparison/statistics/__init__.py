"""Statistics judges differences between arms: pure functions on numpy arrays, one idea per file."""
