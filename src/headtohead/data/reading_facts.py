"""How a tokenizer reads the texts of each split: figures that tell tokenizers apart, and whose texts they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from headtohead.data.contracts import SplitName
from headtohead.data.storage import Ragged
from headtohead.data.tokenizers import Tokenizer
from headtohead.data.tokenizers.learning import digest_of_texts

_MOST = 2**22
"""Characters of a split that are looked at: of more text, every so many-th text."""
_LONGEST = 2**20
"""Characters of one text that are looked at."""


def reading_facts(tokenizer: Tokenizer, texts: Mapping[SplitName, Iterable[str]]) -> dict[str, Any]:
    """By split: bytes and tokens looked at, how many of the tokens are unknown, and the digest of all texts."""
    return {str(name): _facts(tokenizer, own) for name, own in texts.items()}


def told(tokenizer: Tokenizer, facts: Mapping[str, Any]) -> dict[str, Any]:
    """For the record."""
    tokens = {name: max(1, own["tokens"]) for name, own in facts.items()}
    return {
        "tokenizer": tokenizer.kind,
        "vocab_size": tokenizer.vocab_size,
        "bytes_per_token": {name: round(own["bytes"] / tokens[name], 4) for name, own in facts.items()},
        "unknown_share": {name: own["unknown"] / tokens[name] for name, own in facts.items()},
    }


def cutting_facts(max_length: int | None, cut: Mapping[str, float]) -> dict[str, Any]:
    """Which share of the rows of each split has less than its whole text; nothing where none is to be cut."""
    return {} if max_length is None else {"cutting": {"max_length": max_length, "cut_share": dict(cut)}}


def share_cut(whole: Sequence[Ragged], kept: Sequence[Ragged]) -> float:
    """Of rows whose parts these are; where one of two parts is cut, the row is."""
    return float(np.mean(are_cut(whole, kept)))


def are_cut(whole: Sequence[Ragged], kept: Sequence[Ragged]) -> np.ndarray:
    """Row by row."""
    array: np.ndarray = np.any(
        [after.lengths < before.lengths for before, after in zip(whole, kept, strict=True)], axis=0
    )
    return array


def _facts(tokenizer: Tokenizer, texts: Iterable[str]) -> dict[str, Any]:
    seen = _some(texts)
    tokens = tokenizer.encode(seen).values
    return {
        "bytes": sum(len(text.encode()) for text in seen),
        "tokens": len(tokens),
        "unknown": int(np.count_nonzero(tokens == tokenizer.special.unk)),
        "digest": digest_of_texts(texts),
    }


def _some(texts: Iterable[str]) -> Sequence[str]:
    size = sum(map(len, texts))
    if size <= _MOST:
        return list(texts)
    return [text[:_LONGEST] for text in islice(texts, 0, None, -(-size // _MOST))]
