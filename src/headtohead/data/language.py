"""A corpus as rows of tokens for language models: documents, tokenized, then packed or padded."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared
from headtohead.data.contracts import DataError, DataSpec, Split, SplitName
from headtohead.data.rows import ByteCounter, PackedRows, PaddedRows
from headtohead.data.source import CachedSource
from headtohead.data.storage import Ragged, Table
from headtohead.data.tokenizers import (
    BOS,
    UNK,
    Tokenizer,
    TokenizerName,
    check_tokenizer,
    framed,
    train_tokenizer,
)

Packing = Literal["apart", "stream", "none"]
"""apart: documents share rows and do not see each other; stream: they do see what came before; none: one per row."""


class LanguageSource(CachedSource):
    """Documents, each between a start and an end token; a row holds context_length + 1 tokens."""

    kind = "language"

    def __init__(
        self,
        *,
        context_length: int,
        batch_size: int,
        tokenizer: TokenizerName,
        vocab_size: int | None,
        packing: Packing,
    ) -> None:
        super().__init__(batch_size)
        check_tokenizer(tokenizer, vocab_size)
        if context_length < 1:
            raise DataError(f"data.context_length={context_length} must be at least 1.")
        if packing not in get_args(Packing):
            raise DataError(f"data.packing={packing} is unknown: choose one of {', '.join(get_args(Packing))}.")
        self.context_length, self.packing = context_length, packing
        self.tokenizer_name, self.vocab_size = tokenizer, vocab_size

    @abstractmethod
    def documents(self) -> Mapping[SplitName, Sequence[str]]:
        """The texts of each split, none of them empty."""

    @abstractmethod
    def corpus_parameters(self) -> Mapping[str, Any]:
        """All that determines the texts."""

    def parameters(self) -> Mapping[str, Any]:
        return {**self.corpus_parameters(), "tokenizer": self.tokenizer_name, "vocab_size": self.vocab_size}

    def view_parameters(self) -> Mapping[str, Any]:
        return {"context_length": self.context_length, "packing": self.packing}

    def make(self) -> Prepared:
        documents = self.documents()
        tokenizer = train_tokenizer(self.tokenizer_name, documents["train"], self.vocab_size)
        tables = {str(name): _encoded(tokenizer, texts) for name, texts in documents.items()}
        return Prepared(tables, {"tokenizer": tokenizer.to_dict()})

    def describe_rows(self) -> DataSpec:
        return DataSpec(
            kind="language",
            vocab_size=self.tokenizer.vocab_size,
            max_length=self.context_length + 1,
            tokenizer_hash=self.tokenizer.digest,
        )

    def open_split(self, name: SplitName) -> Split:
        table = self.content.tables[name]
        documents, unknown = table["tokens"], table["unknown_bytes"]
        assert isinstance(documents, Ragged) and isinstance(unknown, Ragged)
        counter = ByteCounter(self.tokenizer.byte_lengths, documents.values, unknown.values)
        row_length = self.context_length + 1
        if self.packing == "none":
            return PaddedRows(self, name, documents, row_length=row_length, byte_counter=counter)
        if len(documents.values) < row_length:
            raise DataError(
                f"the {name} split of data={self.name} has {len(documents.values)} tokens, too few for one row of "
                f"data.context_length={self.context_length} and one more: give more text or a smaller context_length."
            )
        apart = self.packing == "apart" and len(documents) > 1
        return PackedRows(self, name, documents.values, row_length=row_length, apart=apart, byte_counter=counter)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_dict(self.content.facts["tokenizer"])

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        assert batch.tokens is not None
        rows = zip(batch.rows, batch.tokens, strict=True)
        return [{"row": int(row), "text": self._with_borders(tokens.numpy())} for row, tokens in rows]

    def _with_borders(self, tokens: np.ndarray) -> str:
        """A packed row, with a sign where a new document begins."""
        documents = np.split(tokens, np.flatnonzero(tokens[1:] == BOS) + 1)
        return " ¶ ".join(self.decode(document.tolist()) for document in documents)


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> Table:
    bare = tokenizer.encode(texts)
    return {"tokens": framed(bare), "unknown_bytes": _unknown_bytes(bare, texts)}


def _unknown_bytes(bare: Ragged, texts: Sequence[str]) -> Ragged:
    """How many bytes each unknown character has, row by row; only single characters can be unknown."""
    unknown = bare.values == UNK
    counts = np.concatenate([[0], np.cumsum(unknown)])[bare.offsets]
    whole = "".join(texts) if unknown.any() else ""
    sizes = np.array([len(whole[place].encode()) for place in np.flatnonzero(unknown)], dtype=np.uint8)
    return Ragged(sizes, counts.astype(np.int64))
