"""The package writes files so that no crash leaves half of one, and reads files that may be damaged."""
