"""Tables of runs and comparisons for terminals, CSV and LaTeX."""
