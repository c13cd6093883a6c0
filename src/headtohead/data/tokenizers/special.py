"""The special tokens, which stand for no text, and their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

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
        """Those of a stored tokenizer."""
        ids = dict(stored.get("special") or {})
        return cls(**{**ids, "others": tuple(ids.get("others", ()))})

    def beginnings(self, tokens: np.ndarray) -> np.ndarray:
        """Where documents begin in rows of several: at a start token after an end token; the two may be one and the
        same."""
        first: np.ndarray = tokens == self.bos
        first[:, 1:] &= tokens[:, :-1] == self.eos
        return first

    def border(self, tokens: np.ndarray) -> int:
        """Where the second of two texts begins, after the end token of the first."""
        return int(np.flatnonzero(tokens[1:] == self.eos)[0]) + 2


OURS = SpecialIds()
"""Of every tokenizer that is learned here."""
