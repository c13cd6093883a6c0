"""Finished runs that write: from prompts as text to texts."""
