"""What training costs where weights are frozen: the backward pass ends at the first layer that learns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from torch import Tensor, nn

from headtohead.architectures.contracts import Architecture, CostRow

_HEAD_KINDS = ("head", "unembedding")


def as_trained(model: Architecture, rows: Iterable[CostRow]) -> Iterator[CostRow]:
    """Rows in the order of computation, frozen ones first. Below all that learns there is no backward pass, and nothing
    is kept for one. A head's product has half of it where only its weight or only its input needs a gradient; the first
    layer that learns is billed in full."""
    asked = False
    for row in rows:
        learns = any(weight.requires_grad for weight in _weights(model, row.path))
        costs = row.costs
        if not asked and not learns:
            costs = replace(costs, training_flops=costs.forward_flops, activation_bytes=0)
        elif row.kind in _HEAD_KINDS and asked != learns:
            costs = replace(costs, training_flops=costs.training_flops - costs.forward_flops)
        asked = asked or learns
        yield replace(row, costs=costs)


def _weights(model: Architecture, path: str) -> Iterator[Tensor]:
    """The parameters at a row's path; a path may go on beyond the last module, with words of the ledger's own."""
    found: nn.Module = model
    for word in path.split("."):
        children = dict(found.named_children())
        if word not in children:
            own = dict(found.named_parameters(recurse=False))
            if word in own:
                yield own[word]
            return
        found = children[word]
    yield from found.parameters()
