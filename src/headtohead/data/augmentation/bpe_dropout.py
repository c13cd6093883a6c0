"""BPE-dropout (Provilkov et al. 2020, https://arxiv.org/abs/1910.13267): words fall into other pieces each time, since
merges are left out at random while they are put together."""

from __future__ import annotations

import json
import random
from functools import cached_property
from typing import Any

import numpy as np

from headtohead.data.augmentation.contracts import checked_rate
from headtohead.data.augmentation.rewriting import Rewriting
from headtohead.data.contracts import DataError, DataSource
from headtohead.data.tokenizers import letter_bytes, library_of
from headtohead.ranges import Probability


class BpeDropout(Rewriting):
    """At each step of putting a word together, each merge that could be made is left out with this probability. The
    text stays the same to the letter."""

    def __init__(self, rate: Probability = 0.1) -> None:
        self.rate = checked_rate(rate, "steps.bpe_dropout.rate")

    def bind(self, source: DataSource) -> None:
        super().bind(source)
        if not self._merges or '"ByteLevel"' not in json.dumps(self._description.get("pre_tokenizer")):
            raise DataError(
                f"augmentation=bpe_dropout leaves out merges of bytes, and data.tokenizer={self.tokenizer.kind} has "
                "none: use data.tokenizer=bpe, or a published byte-level BPE"
            )

    @cached_property
    def _description(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.tokenizer.merges or "{}")
        return read

    @cached_property
    def _merges(self) -> dict[tuple[str, str], int]:
        """The rank of each; written as two words or as a pair."""
        told = self._description.get("model", {}).get("merges") or []
        pairs = (tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in told)
        return {(first, second): rank for rank, (first, second) in enumerate(pairs)}

    @cached_property
    def _ids(self) -> dict[str, int]:
        ids: dict[str, int] = self._description["model"]["vocab"]
        return ids

    @cached_property
    def _letters(self) -> list[str]:
        """The letter of each byte."""
        return [letter for letter, _ in sorted(letter_bytes().items(), key=lambda item: item[1])]

    def rewritten(self, tokens: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        text = b"".join(self.tokenizer.pieces[token] for token in tokens.tolist())
        chance = random.Random(int(draws.integers(2**63)))
        again = [self._ids[piece] for word in self._words(text) for piece in self._pieces(word, chance)]
        return np.array(again, dtype=np.int64)

    def _words(self, text: bytes) -> list[str]:
        """In letters. A text that was cut within a character is one word, since the library reads whole ones."""
        try:
            whole = text.decode()
        except UnicodeDecodeError:
            return ["".join(self._letters[byte] for byte in text)]
        pre_tokenizer = library_of(self.tokenizer.merges).pre_tokenizer
        return [word for word, _ in pre_tokenizer.pre_tokenize_str(whole)]

    def _pieces(self, word: str, chance: random.Random) -> list[str]:
        """As BPE does, were none left out: the merge that was learned first, again and again."""
        pieces = list(word)
        while True:
            best = None
            for place in range(len(pieces) - 1):
                rank = self._merges.get((pieces[place], pieces[place + 1]))
                if rank is not None and chance.random() >= self.rate and (best is None or rank < best[0]):
                    best = rank, place
            if best is None:
                return pieces
            place = best[1]
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
