"""Texts with one label each, tokenized and padded batch by batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch

from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared
from headtohead.data.contracts import SPLIT_NAMES, DataError, DataSpec, Split, SplitName
from headtohead.data.rows import as_tensor, padded
from headtohead.data.source import CachedSource, CachedSplit
from headtohead.data.storage import Ragged, Table, smallest_integer
from headtohead.data.tokenizers import Tokenizer, TokenizerName, check_tokenizer, framed, train_tokenizer

Labelled = tuple[str, int]


class LabelledSource(CachedSource):
    """A row is a start token, the text and an end token: the first can be pooled, and so can the last."""

    kind = "labelled_text"
    class_names: ClassVar[tuple[str, ...]]

    def __init__(
        self, *, batch_size: int, tokenizer: TokenizerName, vocab_size: int | None, bucket_by_length: bool
    ) -> None:
        super().__init__(batch_size)
        check_tokenizer(tokenizer, vocab_size)
        self.tokenizer_name, self.vocab_size, self.bucket_by_length = tokenizer, vocab_size, bucket_by_length

    @abstractmethod
    def samples(self) -> Mapping[SplitName, Sequence[Labelled]]:
        """Texts with the numbers of their classes."""

    @abstractmethod
    def sample_parameters(self) -> Mapping[str, Any]:
        """All that determines the samples."""

    def parameters(self) -> Mapping[str, Any]:
        return {**self.sample_parameters(), "tokenizer": self.tokenizer_name, "vocab_size": self.vocab_size}

    def make(self) -> Prepared:
        samples = self.samples()
        texts = {name: [text for text, _ in samples[name]] for name in SPLIT_NAMES}
        tokenizer = train_tokenizer(self.tokenizer_name, texts["train"], self.vocab_size)
        tables: dict[str, Table] = {}
        for name in SPLIT_NAMES:
            labels = np.array([label for _, label in samples[name]])
            check_labels(labels, len(self.class_names), where=f"the {name} split of data={self.name}")
            tables[str(name)] = {
                "tokens": framed(tokenizer.encode(texts[name])),
                "label": labels.astype(smallest_integer(len(self.class_names))),
            }
        return Prepared(tables, {"tokenizer": tokenizer.to_dict()})

    def describe_rows(self) -> DataSpec:
        lengths = [self._tokens(name).lengths.max() for name in SPLIT_NAMES]
        return DataSpec(
            kind="labelled_text",
            vocab_size=self.tokenizer.vocab_size,
            max_length=int(max(lengths)),
            num_classes=len(self.class_names),
            class_names=self.class_names,
            tokenizer_hash=self.tokenizer.digest,
        )

    def open_split(self, name: SplitName) -> Split:
        labels = self.content.tables[name]["label"]
        assert isinstance(labels, np.ndarray)
        return LabelledRows(self, name, self._tokens(name), labels, self.bucket_by_length)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_dict(self.content.facts["tokenizer"])

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        assert batch.tokens is not None and batch.targets is not None
        samples = zip(batch.rows, batch.tokens, batch.targets, strict=True)
        return [
            {"row": int(row), "text": self.decode(tokens.tolist()), "label": self.class_names[int(label)]}
            for row, tokens, label in samples
        ]

    def _tokens(self, name: SplitName) -> Ragged:
        tokens = self.content.tables[name]["tokens"]
        assert isinstance(tokens, Ragged)
        return tokens


class LabelledRows(CachedSplit):
    """Padded to the longest of the batch."""

    def __init__(
        self, source: CachedSource, name: SplitName, tokens: Ragged, labels: np.ndarray, bucket_by_length: bool
    ) -> None:
        super().__init__(source, name)
        self._tokens, self._labels, self._bucket_by_length = tokens, labels, bucket_by_length

    def __len__(self) -> int:
        return len(self._labels)

    def lengths(self) -> np.ndarray | None:
        return self._tokens.lengths if self._bucket_by_length else None

    def batch(self, rows: np.ndarray) -> Batch:
        tokens, valid = padded(self._tokens.values, self._tokens.offsets[rows], self._tokens.lengths[rows])
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=torch.from_numpy(valid),
            targets=as_tensor(self._labels[rows]),
        )


def check_labels(labels: np.ndarray, num_classes: int, *, where: str) -> None:
    """Every label must be the number of a class."""
    wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(wrong):
        raise DataError(
            f"row {wrong[0]} of {where} has label {labels[wrong[0]]}, and its {num_classes} classes are numbered from "
            f"0 to {num_classes - 1}: correct the label, or name more classes."
        )
