"""What becomes of runs that are over: tagged, noted, archived, deleted, and looked after; what trains is left alone."""
