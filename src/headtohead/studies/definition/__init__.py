"""A study as its YAML file writes it."""
