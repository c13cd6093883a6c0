"""Sweep files as Weights & Biases reads them (https://docs.wandb.ai/guides/sweeps), run here without account."""
