"""A local web page over the folder of runs, which follows them while they train."""
