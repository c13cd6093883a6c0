"""Compare the memory that a model or its training needs with what is available, before anything of it is built."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from headtohead.architectures.ledger import Ledger
from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig
from headtohead.training.loop.precision import Precision
from headtohead.training.memory import free_memory, memory_limit, trained_bytes
from headtohead.training.run_components import TrainerSettings

_log = logging.getLogger(__name__)
_SMALLER = "choose a smaller model (model.d_model, model.num_layers)"
_BLOCK = re.compile(r"(^|\.)blocks\.\d")
"""The path of a component that lies in a block of a stack."""


@dataclass(frozen=True)
class MemoryNeeds:
    """Bytes of one device, or of a machine without any: never more than what is taken for sure."""

    weights: int
    training: int
    """Gradients, the optimizer's state and averaged weights."""
    activations: int
    """The activations that autograd saves for the rows that are read at once; where some are recomputed, those that are
    saved for sure."""

    @property
    def total(self) -> int:
        return self.weights + self.training + self.activations


def memory_needs_of(
    config: Mapping[str, Any], costs: Ledger, settings: TrainerSettings, precision: Precision
) -> MemoryNeeds:
    """Weights that several devices share are divided; on a machine without any, every process has its own."""
    totals = costs.totals
    width = torch.finfo(precision.of_weights).bits // 8
    weights, trained = totals.parameters * width, totals.trained_parameters * width
    taken = trained_bytes(weights, trained, RunConfig(config).optimizer, settings.weight_averaging)
    shared = settings.devices * settings.num_nodes if settings.strategy == "model_parallel" else 1
    replicas = max(1, settings.num_replicas)
    rows = max(1, config["data"].get("batch_size", 1) // (replicas * settings.accumulate))
    activations = totals.activation_bytes
    if config["checkpointing"].get("kind", "none") != "none":
        activations = sum(row.costs.activation_bytes for row in costs.rows if not _BLOCK.search(row.path))
    return MemoryNeeds(
        weights=totals.parameters * width // shared,
        training=int(taken.total - totals.parameters * width) // shared if settings.max_steps else 0,
        activations=activations * rows if settings.max_steps else 0,
    )


def processes_here(settings: TrainerSettings) -> int:
    """Return how many copies of the model a machine without devices holds, divided or whole."""
    return settings.devices


def check_memory(needs: MemoryNeeds, device: torch.device, *, processes: int = 1) -> None:
    """Raise ConfigurationError where the machine cannot hold it; warn where it could not now."""
    needed = needs.total * (1 if device.type == "cuda" else processes)
    what = "this device" if device.type == "cuda" else "this machine or its container"
    if needed > (limit := memory_limit(device)):
        raise ConfigurationError(f"{_refusal(needs, needed)}, and {what} has {_size(limit)}: {_hint(needs, limit)}")
    if needed > (free := free_memory(device)):
        _log.warning("%s, and %s are free now: it may run out of memory", _refusal(needs, needed), _size(free))


def check_weights(weights: int) -> None:
    """Raise ConfigurationError where the machine cannot hold the weights of a model, whatever is done with it."""
    limit = memory_limit(torch.device("cpu"))
    if weights > limit:
        raise ConfigurationError(
            f"the weights of this model need {_size(weights)} of memory, and this machine or its container has "
            f"{_size(limit)}: {_SMALLER}"
        )


def _refusal(needs: MemoryNeeds, needed: int) -> str:
    return (
        f"this training needs at least {_size(needed)} of memory (weights {_size(needs.weights)}, gradients and "
        f"optimizer {_size(needs.training)}, activations {_size(needs.activations)})"
    )


def _hint(needs: MemoryNeeds, limit: int) -> str:
    if needs.weights + needs.training > limit:
        return f"{_SMALLER}, or share it among devices with trainer=fsdp"
    return "lower data.batch_size, raise trainer.accumulate, or set checkpointing=full"


def _size(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB" if count >= 2**28 else f"{count / 2**20:,.1f} MiB"
