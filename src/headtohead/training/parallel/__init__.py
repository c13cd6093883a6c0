"""Several processes and devices for one run."""
