"""A finished run in forms that other programs read, each checked against the run itself."""
