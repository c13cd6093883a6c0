"""The numbers that an optimizer keeps of every weight from step to step, known from its configuration alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class KeptState:
    """The numbers that an optimizer keeps of a weight: the fewest, and the most where weights differ."""

    least: int
    most: int
    updating: int = 0
    """Numbers of each weight that exist for a moment more, while an optimizer without a fused kernel updates it."""


_KEPT = {
    "adamw": KeptState(2, 2),
    "adam": KeptState(2, 2),
    "ademamix": KeptState(3, 3, updating=2),
    "lion": KeptState(1, 1, updating=1),
    "muon": KeptState(1, 2, updating=4),  # of hidden matrices, and of all else
}


def kept_state(optimizer: Mapping[str, object]) -> KeptState:
    """Return what an optimizer keeps; one that is not listed keeps a momentum if it has one."""
    momentum = 1 if optimizer.get("momentum") else 0
    name = str(optimizer["_target_"]).rpartition(".")[2].lower()
    return _KEPT.get(name, KeptState(momentum, momentum))
