"""What cannot be trained as it is asked for, refused in one sentence."""

from __future__ import annotations

import torch

from headtohead.architectures.contracts import Architecture
from headtohead.components.contracts import Norm
from headtohead.training.parts import Parts, Settings


def check_settings(parts: Parts) -> None:
    settings = parts.settings
    for name in ("max_steps", "devices", "num_nodes", "accumulate", "log_every", "validate_every"):
        _at_least_one(name, getattr(settings, name))
    for name in ("validation_batches", "patience"):
        if getattr(settings, name) is not None:
            _at_least_one(name, getattr(settings, name))
    if settings.gradient_clip is not None and settings.gradient_clip <= 0:
        raise ValueError(f"trainer.gradient_clip={settings.gradient_clip}: give a norm above 0, or null for none")
    if settings.weight_averaging is not None and not 0 < settings.weight_averaging < 1:
        raise ValueError(f"trainer.weight_averaging={settings.weight_averaging}: give a decay such as 0.999, or null")
    if settings.accelerator == "gpu" and not torch.cuda.is_available():
        raise ValueError("trainer.accelerator=gpu, and torch sees no GPU here: use trainer=auto or trainer=cpu")
    _check_devices(settings)
    smallest = settings.devices * settings.num_nodes * settings.accumulate
    if parts.data.batch_size < smallest:
        raise ValueError(
            f"data.batch_size={parts.data.batch_size} cannot be split over {settings.devices * settings.num_nodes} "
            f"devices in trainer.accumulate={settings.accumulate} parts each: give {smallest} or more"
        )


def check_model(model: Architecture, settings: Settings) -> None:
    """Batch statistics are of what one device sees at once, so that splitting a batch would change the result."""
    if not any(isinstance(module, Norm) and module.keeps_statistics for module in model.modules()):
        return
    if settings.strategy == "ddp":
        raise ValueError(
            "model/norm=batch_norm takes its statistics over one device's share of a batch, so trainer=ddp would "
            "change what is trained: use one device, or another norm"
        )
    if settings.accumulate > 1:
        raise ValueError(
            f"model/norm=batch_norm takes its statistics over one part of a batch, so trainer.accumulate="
            f"{settings.accumulate} would change what is trained: use 1, or another norm"
        )


def _check_devices(settings: Settings) -> None:
    if settings.strategy == "single" and settings.devices * settings.num_nodes > 1:
        raise ValueError(
            f"trainer.devices={settings.devices} needs trainer=ddp: trainer.strategy=single trains on one device"
        )
    gpus = torch.cuda.device_count()
    if settings.accelerator != "cpu" and torch.cuda.is_available() and settings.devices > gpus:
        raise ValueError(f"trainer.devices={settings.devices}, and torch sees {gpus} here: lower it")


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"trainer.{name}={value}: give 1 or more")
