"""Figures of the parts of a training step: bytes that they hold, and the operations that they do, by number of rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

Phase = Literal["forward", "backward"]


@dataclass(frozen=True)
class OperationKind:
    """Operations of one name in one number format, in one pass."""

    phase: Phase
    name: str
    dtype: torch.dtype
    is_product: bool


Key = tuple[str, OperationKind | None]
"""A figure of a part, and of which operations it is."""
SAVED, OUTPUT, PEAK, LEFT, GRADIENTS = "saved", "output", "peak", "left", "gradients"
COUNT, FLOPS, BYTES, VIEWS = "count", "flops", "bytes", "views"


class Figures(dict[Key, float]):
    """Figures of one part for some number of rows; they add up and grow in lines."""

    def of(self, name: str) -> float:
        """Return a figure that is of no operation: the bytes that the forward pass saves, its output among them; of
        the output; the most that live at a time; those that outlive the pass besides gradients; of gradients."""
        return self.get((name, None), 0.0)

    def operations(self) -> dict[OperationKind, tuple[float, float, float]]:
        """Return number, FLOPs and bytes moved by kind of operation."""
        kinds = {kind for _, kind in self if kind is not None}
        return {
            kind: (self.get((COUNT, kind), 0.0), self.get((FLOPS, kind), 0.0), self.get((BYTES, kind), 0.0))
            for kind in kinds
        }


def combined(terms: list[tuple[float, Figures]]) -> Figures:
    """Return the weighted sum."""
    total: dict[Key, float] = defaultdict(float)
    for weight, figures in terms:
        for key, value in figures.items():
            total[key] += weight * value
    return Figures(total)


@dataclass(frozen=True, eq=False)
class StepPart:
    """One part of a step, or several alike: embedding and final norm, a block, the head with its loss."""

    module: nn.Module
    paths: tuple[str, ...]
    """Where in the model they are."""
    two: Figures
    three: Figures
    recomputed: tuple[Figures, Figures] | None = None
    """The same where mixers are recomputed; of blocks alone."""

    def at(self, rows: float, *, recompute_mixers: bool = False) -> Figures:
        """Return the figures of one of them for so many rows."""
        two, three = self.recomputed if recompute_mixers and self.recomputed is not None else (self.two, self.three)
        return combined([(3 - rows, two), (rows - 2, three)])
