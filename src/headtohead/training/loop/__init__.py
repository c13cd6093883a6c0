"""The loop carries out a training step: batches, losses, seeds, precision and the run's state."""
