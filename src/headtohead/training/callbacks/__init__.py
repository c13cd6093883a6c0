"""Callbacks act around training steps: checkpoints, logged numbers, samples and attention maps."""
