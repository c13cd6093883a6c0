"""Energy that runs draw, as counters of the hardware measure it: never estimated."""
