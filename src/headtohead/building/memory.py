"""What a training needs in memory, compared with what there is before anything of it is built."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from headtohead.architectures.costs import Totals
from headtohead.building.errors import ConfigurationError
from headtohead.training.machine_memory import free_memory, memory_limit
from headtohead.training.optimizers import STATES
from headtohead.training.parts import Settings
from headtohead.training.precision import Precision

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Needs:
    """Bytes of one device, or of a machine without any: never more than what is taken for sure."""

    weights: int
    training: int
    """Gradients, the optimizer's state and averaged weights."""
    activations: int
    """What autograd keeps of the rows that are read at once; none where it is computed again."""

    @property
    def total(self) -> int:
        return self.weights + self.training + self.activations


def needs_of(config: Mapping[str, Any], totals: Totals, settings: Settings, precision: Precision) -> Needs:
    """Weights that several devices share are divided; on a machine without any, every process has its own."""
    width = torch.finfo(precision.of_weights).bits // 8
    states = STATES.get(config["optimizer"]["_target_"].rpartition(".")[2], 0)
    copies = 1 + states + (settings.weight_averaging is not None)
    shared = settings.devices * settings.num_nodes if settings.strategy == "model_parallel" else 1
    replicas = max(1, settings.num_replicas)
    rows = max(1, config["data"].get("batch_size", 1) // (replicas * settings.accumulate))
    kept = config["checkpointing"].get("kind", "none") == "none" and config["trainer"]["max_steps"] > 0
    return Needs(
        weights=totals.parameters * width // shared,
        training=totals.trained_parameters * width * copies // shared if settings.max_steps else 0,
        activations=totals.activation_bytes * rows if kept else 0,
    )


def processes_here(settings: Settings) -> int:
    """Return how many copies of the model a machine without devices holds, divided or whole."""
    return settings.devices


def check_memory(needs: Needs, device: torch.device, *, processes: int = 1) -> None:
    """Raise ConfigurationError where the machine cannot hold it; warn where it could not now."""
    needed = needs.total * (1 if device.type == "cuda" else processes)
    what = "this device" if device.type == "cuda" else "this machine or its container"
    if needed > (limit := memory_limit(device)):
        raise ConfigurationError(f"{_said(needs, needed)}, and {what} has {_size(limit)}: {_way_out(needs, limit)}")
    if needed > (free := free_memory(device)):
        _log.warning("%s, and %s are free now: it may run out of memory", _said(needs, needed), _size(free))


def _said(needs: Needs, needed: int) -> str:
    return (
        f"this training needs at least {_size(needed)} of memory (weights {_size(needs.weights)}, gradients and "
        f"optimizer {_size(needs.training)}, activations {_size(needs.activations)})"
    )


def _way_out(needs: Needs, limit: int) -> str:
    if needs.weights + needs.training > limit:
        return "choose a smaller model (model.d_model, model.num_layers), or share it among devices with trainer=fsdp"
    return "lower data.batch_size, raise trainer.accumulate, or set checkpointing=full"


def _size(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB" if count >= 2**28 else f"{count / 2**20:,.1f} MiB"
