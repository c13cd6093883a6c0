"""Known implementations beside ours, measured in turn in one process: what `h2h bench --peers` runs."""
