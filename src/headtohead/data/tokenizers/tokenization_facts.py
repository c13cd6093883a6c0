"""These facts tell how a tokenizer reads the texts of each split: figures that distinguish tokenizers, and a digest of
the texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from headtohead.data.cache.arrow_columns import Ragged
from headtohead.data.data_source import SplitName
from headtohead.data.tokenizers import Tokenizer
from headtohead.data.tokenizers.tokenizer_cache import digest_of_texts

_MOST = 2**20
"""Characters of a split that are looked at: of more text, every so many-th text."""
_LONGEST = 2**20
"""Characters of one text that are looked at."""


def reading_facts(tokenizer: Tokenizer, texts: Mapping[SplitName, Iterable[str]]) -> dict[str, Any]:
    """Return by split the bytes and tokens looked at, how many of the tokens are unknown, and the digest of all
    texts."""
    return {str(name): _facts(tokenizer, own) for name, own in texts.items()}


def facts_for_record(tokenizer: Tokenizer, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts for the record."""
    tokens = {name: max(1, own["tokens"]) for name, own in facts.items()}
    return {
        "tokenizer": tokenizer.kind,
        "vocab_size": tokenizer.vocab_size,
        "bytes_per_token": {name: round(own["bytes"] / tokens[name], 4) for name, own in facts.items()},
        "unknown_share": {name: own["unknown"] / tokens[name] for name, own in facts.items()},
    }


def cutting_facts(max_length: int | None, cut: Mapping[str, float]) -> dict[str, Any]:
    """Return the share of each split's rows that are truncated; nothing without a max_length."""
    return {} if max_length is None else {"cutting": {"max_length": max_length, "cut_share": dict(cut)}}


def share_cut(before: Sequence[Ragged], after: Sequence[Ragged]) -> float:
    """Return the share of truncated rows; where one of two parts is truncated, the row is."""
    return float(np.mean(are_cut(before, after)))


def are_cut(untruncated: Sequence[Ragged], truncated: Sequence[Ragged]) -> np.ndarray:
    """Return whether each row is truncated."""
    array: np.ndarray = np.any(
        [after.lengths < before.lengths for before, after in zip(untruncated, truncated, strict=True)], axis=0
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
