"""A finished run measured again: on any split, on other data, at other lengths, past its training context."""
