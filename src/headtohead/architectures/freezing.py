"""What training costs where weights are frozen: the backward pass ends at the first layer that learns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from torch import Tensor, nn

from headtohead.architectures.contracts import Architecture, CostRow

_HEAD_KINDS = ("head", "unembedding")
_MEMORY = ".cross.memory"
"""What a cross mixer does for the source alone."""


def as_trained(model: Architecture, rows: Iterable[CostRow]) -> Iterator[CostRow]:
    """Rows in the order of computation, frozen ones first. Below all that learns there is no backward pass, and nothing
    is kept for one. Where only a weight or only its input needs a gradient, half of it is left: so are a head's product
    and what reads a memory billed; the first layer that learns is billed in full."""
    asked = {"source": False, "target": False}
    """Whether a gradient is asked for by what comes before, on each side."""
    for row in rows:
        learns = any(weight.requires_grad for weight in _weights(model, row.path))
        before, costs = asked[row.side], row.costs
        if not before and not learns:
            costs = replace(costs, training_flops=costs.forward_flops, activation_bytes=0)
        elif before != learns and (row.kind in _HEAD_KINDS or row.path.endswith(_MEMORY)):
            kept = costs.activation_bytes if learns else 0
            costs = replace(costs, training_flops=costs.training_flops - costs.forward_flops, activation_bytes=kept)
        if not row.path.endswith(_MEMORY):
            asked[row.side] = before or learns
        yield replace(row, costs=costs)


def _weights(model: Architecture, path: str) -> Iterator[Tensor]:
    """The parameters at a row's path; none for what the ledger alone has a word for."""
    found: object = model
    for word in path.removesuffix(".memory").split("."):
        found = getattr(found, word, None)
    if isinstance(found, nn.Module):
        yield from found.parameters()
    elif isinstance(found, Tensor):
        yield found
