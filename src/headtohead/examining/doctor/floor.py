"""The lowest loss that a batch allows: where the same inputs are followed by different targets, nobody can be sure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Literal

import torch
from torch import Tensor

from headtohead.data.batch import IGNORED, Batch


def floor(batch: Batch, causal_field: Literal["tokens", "decoder_tokens"] | None) -> float:
    """The mean entropy, in nats, of scored targets given all that their outputs may see; of numbers their variance."""
    assert batch.targets is not None, "a task's view has targets"
    if batch.targets.is_floating_point():
        return _variance_of_equal(batch)
    seen: dict[bytes, Counter[int]] = defaultdict(Counter)
    targets = batch.targets.cpu().reshape(batch.num_samples, -1)
    for row in range(batch.num_samples):
        for place, target in enumerate(targets[row].tolist()):
            if target != IGNORED:
                seen[_visible(batch, row, place, causal_field)][target] += 1
    total = sum(count for counts in seen.values() for count in counts.values())
    lost = sum(-count * math.log(count / sum(counts.values())) for counts in seen.values() for count in counts.values())
    return lost / max(1, total)


def blind(batch: Batch) -> float:
    """The loss of one who sees no input, and knows how often each target occurs in it; of numbers, their mean."""
    assert batch.targets is not None, "a task's view has targets"
    if batch.targets.is_floating_point():
        return float(batch.targets.double().var(correction=0))
    counts = batch.targets[batch.targets != IGNORED].unique(return_counts=True)[1].double()
    return float(torch.special.entr(counts / counts.sum()).sum())


def _variance_of_equal(batch: Batch) -> float:
    """The squared error that is left where the same inputs have different scores."""
    assert batch.targets is not None
    scores: dict[bytes, list[float]] = defaultdict(list)
    for row, score in enumerate(batch.targets.tolist()):
        scores[_visible(batch, row, 0, None)].append(score)
    lost = sum((score - sum(alike) / len(alike)) ** 2 for alike in scores.values() for score in alike)
    return lost / max(1, batch.num_samples)


def _visible(batch: Batch, row: int, place: int, causal_field: str | None) -> bytes:
    """All that decides an output: everything and its place, or, causally, what stands up to it."""
    inputs = {name: tensor[row].cpu() for name, tensor in batch.inputs().items()}
    assert batch.targets is not None
    if causal_field is None or batch.targets.ndim == 1:
        return b"|".join([_bytes(tensor) for tensor in inputs.values()] + [str(place).encode()])
    own = inputs.pop(causal_field)[: place + 1]
    if batch.segments is not None:
        own = own[batch.segments[row].cpu()[: place + 1] == batch.segments[row, place].cpu()]
    source = [_bytes(inputs[name]) for name in ("tokens", "valid") if name in inputs and causal_field != "tokens"]
    return b"|".join([*source, _bytes(own)])


def _bytes(tensor: Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()
