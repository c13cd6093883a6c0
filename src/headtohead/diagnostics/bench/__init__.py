"""Time and memory over length, batch size, precision, checkpointing and attention."""
