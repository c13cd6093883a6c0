"""Planning turns a study into runs, and registers the design before the first of them."""
