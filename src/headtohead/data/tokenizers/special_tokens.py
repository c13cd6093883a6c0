"""The special tokens, which stand for no text, and their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headtohead.data.cache.arrow_columns import Ragged

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<mask>", "<unk>")
PAD, BOS, EOS, MASK, UNK = range(len(SPECIAL_TOKENS))


@dataclass(frozen=True)
class SpecialIds:
    """The numbers of the special tokens; -1 for one that there is not."""

    pad: int = PAD
    bos: int = BOS
    eos: int = EOS
    mask: int = MASK
    unk: int = UNK
    others: tuple[int, ...] = ()
    """All that stand for no text, where they do not come first."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> SpecialIds:
        """Return the special tokens of a stored tokenizer."""
        ids = dict(stored.get("special") or {})
        return cls(**{**ids, "others": tuple(ids.get("others", ()))})

    def beginnings(self, tokens: np.ndarray) -> np.ndarray:
        """Return where documents begin in packed rows: at a start token after an end token; the two may be the same."""
        first: np.ndarray = tokens == self.bos
        first[:, 1:] &= tokens[:, :-1] == self.eos
        return first

    def border(self, tokens: np.ndarray) -> int:
        """Return where the second of two texts begins, after the end token of the first."""
        return int(np.flatnonzero(tokens[1:] == self.eos)[0]) + 2


OURS = SpecialIds()
"""The special tokens of every tokenizer that is learned here."""


def framed(*parts: Ragged, start: int = BOS, end: int = EOS) -> Ragged:
    """Put each row between a start and an end token; where it has several parts, each of them ends with an end
    token."""
    rows = Ragged.of_lengths(parts[0].values[:0], np.sum([part.lengths + 1 for part in parts], axis=0) + 1)
    values = np.empty(rows.offsets[-1], dtype=parts[0].values.dtype)
    inner = np.ones(len(values), dtype=bool)
    edges = rows.offsets[:-1].copy()
    inner[edges], values[edges] = False, start
    for part in parts:
        edges += part.lengths + 1
        inner[edges], values[edges] = False, end
    values[inner] = alternating(parts).values
    return Ragged(values, rows.offsets)


def shortened(parts: Sequence[Ragged], max_length: int | None) -> list[Ragged]:
    """Truncate parts at their ends to fit a frame of `max_length` tokens: the longer one of two first."""
    if max_length is None:
        return list(parts)
    room = max_length - len(parts) - 1
    if len(parts) == 1:
        return [parts[0].cut(np.full(len(parts[0]), room))]
    first, second = parts
    of_first = np.maximum(room - second.lengths, room // 2)
    shortened_first = first.cut(of_first)
    return [shortened_first, second.cut(room - shortened_first.lengths)]


def alternating(parts: Sequence[Ragged]) -> Ragged:
    """Return row 0 of each part, then row 1 of each, and so on."""
    if len(parts) == 1:
        return parts[0]
    values, lengths = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "lengths"))
    order = np.arange(len(lengths)).reshape(len(parts), -1).T.reshape(-1)
    return Ragged.of_lengths(values, lengths).chosen(order)
