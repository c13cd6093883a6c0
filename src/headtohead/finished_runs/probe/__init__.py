"""Looking inside a run: what it attends to, what data it really sees, how its positions look."""
