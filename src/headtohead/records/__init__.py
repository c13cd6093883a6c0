"""Records of runs on disk: what a run was, what it cost and how it ended, readable without torch."""
