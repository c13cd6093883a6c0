"""Pairs of texts, a source and a target, tokenized with one vocabulary and padded batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.batches.disk_backed_texts import DiskBackedPairs, DiskBackedSequence
from headtohead.data.cache.arrow_columns import Ragged, Table, numbers, ragged
from headtohead.data.cache.cached_source import CachedSource, CachedSplit
from headtohead.data.cache.parallel_map import parallel_map
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import DataSpec, SplitName
from headtohead.data.row_formats.text_source import Decode, RowFormat, SampleOrigin, TextSource, check_text, longest
from headtohead.data.row_formats.token_rows import as_tensor, padded
from headtohead.data.tokenizers import Tokenizer, shortened
from headtohead.data.tokenizers.tokenization_facts import are_cut, cutting_facts

Pair = tuple[str, str]


class PairFormat(RowFormat[Pair]):
    """The decoder reads a start token and the target, and is to write the target and an end token."""

    kind = "pairs_of_text"

    def __init__(self, max_length: int | None = None) -> None:
        self.max_length = max_length

    def parameters(self) -> Mapping[str, object]:
        return {"max_length": self.max_length}

    def texts(self, sample: Pair) -> Iterable[str]:
        return sample

    def new_samples(self) -> DiskBackedSequence:
        return DiskBackedPairs()

    def prepared(
        self, samples: Mapping[SplitName, Sequence[Pair]], tokenizer: Tokenizer, index: SampleOrigin
    ) -> PreparedContent:
        tables: dict[str, Table] = {}
        cut: dict[str, float] = {}
        for name, pairs in samples.items():
            for row, pair in enumerate(pairs):
                for what, text in zip(("source", "target"), pair, strict=True):
                    check_text(text, what, index, name, row)
            work = partial(tokenized_pairs, tokenizer, self.max_length)
            table = parallel_map(work, pairs, doing=f"tokenizing {name}", size_of=_size)
            cut[name] = float(np.mean(numbers(table, "is_cut")))
            tables[str(name)] = {side: table[side] for side in ("source", "target")}
        return PreparedContent(tables, cutting_facts(self.max_length, cut))

    def spec(self, content: PreparedContent) -> DataSpec:
        return DataSpec(
            kind=self.kind,
            max_length=longest(content, "source"),
            max_target_length=longest(content, "target") - 1,
        )

    def rows(self, source: TextSource, name: SplitName, table: Table) -> PairRows:
        return PairRows(source, name, ragged(table, "source"), ragged(table, "target"), source.bucket_by_length)

    def described(self, batch: Batch, content: PreparedContent, decode: Decode) -> list[dict[str, Any]]:
        del content
        assert batch.tokens is not None and batch.decoder_tokens is not None
        sides = zip(batch.rows, batch.tokens, batch.decoder_tokens, strict=True)
        return [
            {"row": int(row), "source": decode(source.tolist()), "target": decode(target.tolist())}
            for row, source, target in sides
        ]


def tokenized_pairs(tokenizer: Tokenizer, max_length: int | None, pairs: Sequence[Pair]) -> Table:
    """Tokenize both sides, truncate each separately, and note whether one was truncated."""
    untruncated = [tokenizer.encode(texts) for texts in zip(*pairs, strict=True)]
    (sources,), (targets,) = (shortened([side], max_length) for side in untruncated)
    return {"source": sources, "target": tokenizer.framed(targets), "is_cut": are_cut(untruncated, [sources, targets])}


def _size(pair: Pair) -> int:
    return sum(map(len, pair))


class PairSource(TextSource):
    """A source of texts and their targets."""

    kind = "pairs_of_text"

    @property
    def form(self) -> PairFormat:
        return PairFormat()


class PairRows(CachedSplit):
    """Pairs with both sides padded to the longest of the batch."""

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
