"""Finished runs under lm-evaluation-harness (https://github.com/EleutherAI/lm-evaluation-harness)."""
