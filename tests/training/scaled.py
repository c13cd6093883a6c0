"""A CPU that computes in 16-mixed, by the plugin and the scaler of a GPU, whose scale changes every few steps."""

from __future__ import annotations

from typing import Any

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.plugins import MixedPrecision


def scaled_trainer(**arguments: Any) -> Trainer:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=7)
    arguments.pop("precision")
    return Trainer(**{**arguments, "plugins": [*arguments["plugins"], MixedPrecision("16-mixed", "cpu", scaler)]})
