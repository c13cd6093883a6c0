"""Rows of tokens between a start and an end token, cut to a length where they must be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headtohead.data.storage import Ragged
from headtohead.data.tokenizers.special import BOS, EOS


def framed(*parts: Ragged, start: int = BOS, end: int = EOS) -> Ragged:
    """Each row between a start and an end token; where it has several parts, each of them with an end token."""
    whole = Ragged.of_lengths(parts[0].values[:0], np.sum([part.lengths + 1 for part in parts], axis=0) + 1)
    values = np.empty(whole.offsets[-1], dtype=parts[0].values.dtype)
    inner = np.ones(len(values), dtype=bool)
    edges = whole.offsets[:-1].copy()
    inner[edges], values[edges] = False, start
    for part in parts:
        edges += part.lengths + 1
        inner[edges], values[edges] = False, end
    values[inner] = alternating(parts).values
    return Ragged(values, whole.offsets)


def shortened(parts: Sequence[Ragged], max_length: int | None) -> list[Ragged]:
    """Parts that fit a frame of `max_length` tokens, cut at their ends: the longer one of two first."""
    if max_length is None:
        return list(parts)
    room = max_length - len(parts) - 1
    if len(parts) == 1:
        return [parts[0].cut(np.full(len(parts[0]), room))]
    first, second = parts
    of_first = np.maximum(room - second.lengths, room // 2)
    kept = first.cut(of_first)
    return [kept, second.cut(room - kept.lengths)]


def alternating(parts: Sequence[Ragged]) -> Ragged:
    """Row 0 of each part, then row 1 of each, and so on."""
    if len(parts) == 1:
        return parts[0]
    values, lengths = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "lengths"))
    order = np.arange(len(lengths)).reshape(len(parts), -1).T.reshape(-1)
    return Ragged.of_lengths(values, lengths).chosen(order)
