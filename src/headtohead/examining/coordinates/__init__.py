"""`h2h coordinates`: how large activations are, and what training changes in them, at several widths."""
