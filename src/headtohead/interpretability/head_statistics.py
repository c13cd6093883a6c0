"""These statistics summarise attention heads: how widely and how far they attend, and whether to anything in
particular."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.component import Grid
from headtohead.interpretability.recorded_attention import AttentionMaps

Statistics = dict[str, list[float]]
"""A number per head, by name."""


def head_statistics(maps: Sequence[AttentionMaps]) -> dict[str, Statistics]:
    """Return for each map, by name, a number per head: its mean over the queries that have several keys to choose from.

    - entropy: of a query's weights, in nats; entropy_share: the same over its maximum, ln of the number of its keys
    - distance: |query's position - key's position| in tokens, weighted; across two sequences, of their positions
    - first: share on the first token of the document (or of the memory)
    - itself, previous (self-attention): shares on the query's own token and on the one before
    - patch_distance (images): Euclidean, in patches, between patches alone

    Weights of implicit attention, which may be negative, count by their magnitude. NaN where there is no such query.
    """
    return {own.name: _statistics(own) for own in maps}


def _statistics(maps: AttentionMaps) -> Statistics:
    shares, allowed = _shares(maps.weights), maps.allowed
    num_keys = allowed.sum(-1)
    chooses = num_keys > 1
    entropy = torch.special.entr(shares).sum(-1)
    indices = _distances(*shares.shape[-2:])
    result = {
        "entropy": _mean(entropy, chooses),
        "entropy_share": _mean(entropy / num_keys.clamp(min=2).log()[:, None], chooses),
        "distance": _mean((shares * indices).sum(-1), chooses),
        "first": _mean((shares * _first(maps)[:, None]).sum(-1), chooses),
    }
    if maps.kind == "self":
        before = allowed.diagonal(-1, dim1=-2, dim2=-1)
        result["itself"] = _mean(shares.diagonal(dim1=-2, dim2=-1), chooses)
        result["previous"] = _mean(shares.diagonal(-1, dim1=-2, dim2=-1), chooses[:, 1:] & before)
        if maps.grid is not None:
            result["patch_distance"] = _patch_distance(shares, maps.grid, chooses)
    return result


def _shares(weights: Float[Tensor, "B H L M"]) -> Float[Tensor, "B H L M"]:
    sizes = weights.double().abs()
    return sizes / sizes.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)


def _mean(values: Float[Tensor, "B H L"], counted: Bool[Tensor, "B L"]) -> list[float]:
    """Return the mean of each head over the queries that count."""
    total = (values * counted[:, None]).sum((0, 2))
    count = int(counted.sum())
    return (total / count).tolist() if count else [math.nan] * values.shape[1]


def _distances(length: int, num_keys: int) -> Float[Tensor, "L M"]:
    return (torch.arange(length)[:, None] - torch.arange(num_keys)).abs().double()


def _first(maps: AttentionMaps) -> Bool[Tensor, "#B 1 M"]:
    """Return a mask of the keys at which a document, or the memory, starts."""
    if maps.segments is None:
        return (torch.arange(maps.weights.shape[-1]) == 0)[None, None]
    changes = maps.segments[:, 1:] != maps.segments[:, :-1]
    return torch.cat((torch.ones_like(changes[:, :1]), changes), dim=1)[:, None]


def _patch_distance(shares: Float[Tensor, "B H L M"], grid: Grid, counted: Bool[Tensor, "B L"]) -> list[float]:
    rows, columns = grid
    others = shares.shape[-1] - rows * columns
    between = _shares(shares[..., others:, others:])
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    indices = torch.stack((row.flatten(), column.flatten()), dim=1).double()
    return _mean((between * torch.cdist(indices, indices)).sum(-1), counted[:, others:])
