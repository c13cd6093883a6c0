"""A stand-in for W&B's server on 127.0.0.1: what runs and `wandb sync` need, and the ways in which it can fail.

What it does not know it refuses, and notes in `unknown`. `runs` holds what arrived, decoded.
"""

from wandb_server.runs import ServedRun
from wandb_server.serving import WandbServer

__all__ = ["ServedRun", "WandbServer"]
