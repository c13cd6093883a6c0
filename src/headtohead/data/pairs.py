"""Pairs of texts, a source and a target, tokenized with one vocabulary and padded batch by batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from headtohead.data.batch import IGNORED, Batch
from headtohead.data.caching import Prepared
from headtohead.data.contracts import SPLIT_NAMES, DataSpec, Split, SplitName
from headtohead.data.rows import as_tensor, padded
from headtohead.data.source import CachedSource, CachedSplit
from headtohead.data.storage import Ragged
from headtohead.data.tokenizers import Tokenizer, TokenizerName, check_tokenizer, framed, train_tokenizer

Pair = tuple[str, str]


class PairSource(CachedSource):
    """The decoder reads a start token and the target, and is to write the target and an end token."""

    kind = "pairs_of_text"

    def __init__(
        self, *, batch_size: int, tokenizer: TokenizerName, vocab_size: int | None, bucket_by_length: bool
    ) -> None:
        super().__init__(batch_size)
        check_tokenizer(tokenizer, vocab_size)
        self.tokenizer_name, self.vocab_size, self.bucket_by_length = tokenizer, vocab_size, bucket_by_length

    @abstractmethod
    def pairs(self) -> Mapping[SplitName, Sequence[Pair]]:
        """The pairs of each split, no text of them empty."""

    @abstractmethod
    def pair_parameters(self) -> Mapping[str, Any]:
        """All that determines the pairs."""

    def parameters(self) -> Mapping[str, Any]:
        return {**self.pair_parameters(), "tokenizer": self.tokenizer_name, "vocab_size": self.vocab_size}

    def make(self) -> Prepared:
        pairs = self.pairs()
        texts = {name: ([source for source, _ in pairs[name]], [target for _, target in pairs[name]]) for name in pairs}
        tokenizer = train_tokenizer(self.tokenizer_name, [*texts["train"][0], *texts["train"][1]], self.vocab_size)
        tables = {}
        for name, (sources, targets) in texts.items():
            tables[str(name)] = {"source": tokenizer.encode(sources), "target": framed(tokenizer.encode(targets))}
        return Prepared(tables, {"tokenizer": tokenizer.to_dict()})

    def describe_rows(self) -> DataSpec:
        return DataSpec(
            kind="pairs_of_text",
            vocab_size=self.tokenizer.vocab_size,
            max_length=self._longest("source"),
            max_target_length=self._longest("target") - 1,
            tokenizer_hash=self.tokenizer.digest,
        )

    def open_split(self, name: SplitName) -> Split:
        return PairRows(self, name, self._column(name, "source"), self._column(name, "target"), self.bucket_by_length)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_dict(self.content.facts["tokenizer"])

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        assert batch.tokens is not None and batch.decoder_tokens is not None
        sides = zip(batch.rows, batch.tokens, batch.decoder_tokens, strict=True)
        return [
            {"row": int(row), "source": self.decode(source.tolist()), "target": self.decode(target.tolist())}
            for row, source, target in sides
        ]

    def _column(self, name: SplitName, side: str) -> Ragged:
        column = self.content.tables[name][side]
        assert isinstance(column, Ragged)
        return column

    def _longest(self, side: str) -> int:
        return max(int(self._column(name, side).lengths.max()) for name in SPLIT_NAMES)


class PairRows(CachedSplit):
    """Both sides padded to the longest of the batch."""

    def __init__(
        self, source: CachedSource, name: SplitName, sources: Ragged, targets: Ragged, bucket_by_length: bool
    ) -> None:
        super().__init__(source, name)
        self._sources, self._targets, self._bucket_by_length = sources, targets, bucket_by_length

    def __len__(self) -> int:
        return len(self._sources)

    def lengths(self) -> np.ndarray | None:
        return self._sources.lengths + self._targets.lengths if self._bucket_by_length else None

    def batch(self, rows: np.ndarray) -> Batch:
        tokens, valid = padded(self._sources.values, self._sources.offsets[rows], self._sources.lengths[rows])
        starts, lengths = self._targets.offsets[rows], self._targets.lengths[rows] - 1
        decoder_tokens, decoder_valid = padded(self._targets.values, starts, lengths)
        written, _ = padded(self._targets.values, starts + 1, lengths)
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=torch.from_numpy(valid),
            decoder_tokens=as_tensor(decoder_tokens),
            decoder_valid=torch.from_numpy(decoder_valid),
            targets=as_tensor(np.where(decoder_valid, written.astype(np.int64), IGNORED)),
        )
