"""A corpus as rows of tokens for language models: documents, tokenized, then packed or padded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Int

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.batches.disk_backed_texts import DiskBackedSequence, DiskBackedTexts
from headtohead.data.cache.arrow_columns import Ragged, Table, numbers, ragged
from headtohead.data.cache.parallel_map import parallel_map
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSpec, Split, SplitName
from headtohead.data.row_formats.text_source import Decode, RowFormat, SampleOrigin, TextSource, TokenizedRows
from headtohead.data.row_formats.token_rows import (
    CountsBytes,
    PackedRows,
    PaddedRows,
    as_tensor,
    byte_counter,
    framed_with_bytes,
    padded,
)
from headtohead.data.splits.leaks import Compared, Matches, stretches, without
from headtohead.data.tokenizers import UNK, SpecialIds, Tokenizer
from headtohead.data.tokenizers.tokenizer import cut
from headtohead.field_group import FieldGroup
from headtohead.ranges import Length

# Long documents read through windows that overlap, so that every token is predicted once, with much before it in
# sight (Press et al. 2021, sliding-window evaluation, https://arxiv.org/abs/2012.15832).


class StridedRows(Split):
    """Windows of `length` tokens, each starting `stride` tokens after the one before in the same document. A window
    scores only the targets that those before it did not: its last `stride` ones, each with at least `length - stride`
    tokens of context; a document's first window scores all of its own."""

    def __init__(self, documents: Ragged, *, length: int, stride: int, byte_counter: CountsBytes) -> None:
        if length < 1:
            raise DataError(f"windows of {length} tokens hold nothing: choose a length of at least 1.")
        if not 1 <= stride <= length:
            raise DataError(
                f"windows of {length} tokens that start {stride} tokens apart would leave tokens out: choose a stride "
                f"from 1 to {length}."
            )
        self._values, self._byte_counter = documents.values, byte_counter
        self._starts, self._lengths, self._scored = _windows(documents, length, stride)

    def __len__(self) -> int:
        return len(self._starts)

    def lengths(self) -> np.ndarray:
        return self._lengths

    def batch(self, rows: np.ndarray) -> Batch:
        """Return windows with their own targets, IGNORED where another window scores them."""
        starts, lengths, scored = self._starts[rows], self._lengths[rows], self._scored[rows]
        tokens, valid = padded(self._values, starts, lengths + 1)
        first, stops = (lengths - scored)[:, None], starts + lengths + 1
        counted = valid[:, 1:] & (np.arange(tokens.shape[1] - 1) >= first)
        new, _ = padded(self._values, stops - scored, scored)
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens[:, :-1]),
            targets=as_tensor(np.where(counted, tokens[:, 1:].astype(np.int64), IGNORED)),
            valid=None if valid.all() else torch.from_numpy(valid[:, 1:].copy()),
            num_bytes=self._byte_counter.count(new, stops - scored, stops),
        )


def _windows(
    documents: Ragged, length: int, stride: int
) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """Return where each window starts in the stream, how many tokens it reads, and how many targets it scores."""
    num_targets = np.maximum(documents.lengths - 1, 0)
    num_windows = np.where(num_targets > 0, 1 + -(-np.maximum(num_targets - length, 0) // stride), 0)
    number = np.arange(num_windows.sum()) - np.repeat(np.cumsum(num_windows) - num_windows, num_windows)
    ends = np.minimum(number * stride + length, np.repeat(num_targets, num_windows))
    scored_before = np.where(number > 0, (number - 1) * stride + length, 0)
    starts = np.repeat(documents.offsets[:-1], num_windows) + number * stride
    return starts, ends - number * stride, ends - scored_before


Packing = Literal["apart", "stream", "none"]
"""apart: documents share rows and do not see each other; stream: they do see what came before; none: one per row."""


@dataclass(frozen=True)
class RowPacking(FieldGroup):
    """Options for making rows of one length out of documents."""

    context_length: Length = 128
    packing: Packing = "apart"


_LONG_SHARE = 0.5
"""The share of the test text that must be in documents longer than a row, for longer rows to mean more context."""


class LanguageFormat(RowFormat[str]):
    """Documents, none of them empty, each between a start and an end token; a row holds context_length + 1 tokens."""

    kind = "language"

    def __init__(self, context_length: int, packing: Packing) -> None:
        if context_length < 1:
            raise DataError(f"data.context_length={context_length} must be at least 1.")
        if packing not in get_args(Packing):
            raise DataError(f"data.packing={packing} is unknown: choose one of {', '.join(get_args(Packing))}.")
        self.context_length, self.packing = context_length, packing

    def view_parameters(self) -> Mapping[str, object]:
        return {"context_length": self.context_length, "packing": self.packing}

    def texts(self, sample: str) -> Iterable[str]:
        return (sample,)

    unit = "stretches"

    def pieces(self, sample: str) -> Sequence[Compared]:
        return stretches(sample)

    def without(self, sample: str, matches: Matches) -> str | None:
        left = without(sample, matches)
        return left if left.strip() else None

    def new_samples(self) -> DiskBackedSequence:
        return DiskBackedTexts()

    def prepared(
        self, samples: Mapping[SplitName, Sequence[str]], tokenizer: Tokenizer, index: SampleOrigin
    ) -> PreparedContent:
        del index
        return PreparedContent(
            {str(name): tokenized(tokenizer, texts, doing=f"tokenizing {name}") for name, texts in samples.items()}
        )

    def spec(self, content: PreparedContent) -> DataSpec:
        del content
        return DataSpec(kind=self.kind, max_length=self.context_length + 1, rows_follow_tokens=True)

    def rows(self, source: TextSource, name: SplitName, table: Table) -> Split:
        documents, counter = ragged(table, "tokens"), byte_counter(source.tokenizer, table)
        row_length = self.context_length + 1
        if self.packing == "none":
            return PaddedRows(source, name, documents, row_length=row_length, byte_counter=counter)
        if len(documents.values) < row_length:
            sizes = {own: len(ragged(source.content.tables[own], "tokens").values) for own in SPLIT_NAMES}
            lacking, total = [own for own, size in sizes.items() if size < row_length], max(sum(sizes.values()), 1)
            ways = ["give more text", " ".join(source.overrides_for_share(row_length / total, lacking))]
            ways.append(f"data.context_length={min(sizes.values()) - 1} at most" if min(sizes.values()) > 1 else "")
            raise DataError(
                f"the {name} split of data={source.name} has {len(documents.values)} tokens, too few for one row of "
                f"data.context_length={self.context_length} and one more: {' or '.join(filter(None, ways))}."
            )
        apart = self.packing == "apart" and len(documents) > 1
        borders = source.tokenizer.special if apart else None
        return PackedRows(source, name, documents.values, row_length=row_length, borders=borders, byte_counter=counter)

    def windows(self, source: TextSource, name: SplitName, table: Table, *, length: int, stride: int) -> Split:
        """Return windows over each document by itself; with packing=stream over all of them as one."""
        del name
        documents, counter = ragged(table, "tokens"), byte_counter(source.tokenizer, table)
        if self.packing == "stream":
            documents = Ragged(documents.values, np.array([0, len(documents.values)]))
        return StridedRows(documents, length=length, stride=stride, byte_counter=counter)

    def longer(self, test: Table, multiple: int) -> LanguageFormat:
        """Return rows of more context; where documents are read separately, that only helps if most of them are longer
        than the new length."""
        length, documents = multiple * self.context_length, ragged(test, "tokens").lengths
        enough = documents[documents > length].sum() >= _LONG_SHARE * documents.sum()
        if self.packing != "stream" and not enough:
            raise DataError(
                f"with data.packing={self.packing} nothing is read across documents, and most of the test text is in "
                f"documents of fewer than {length} tokens: use data.packing=stream, or longer documents"
            )
        return LanguageFormat(length, self.packing)

    def described(self, batch: Batch, content: PreparedContent, decode: Decode) -> list[dict[str, Any]]:
        assert batch.tokens is not None
        special = SpecialIds.of(content.facts["tokenizer"])
        rows = zip(batch.rows, batch.tokens, strict=True)
        return [{"row": int(row), "text": _with_borders(tokens.numpy(), special, decode)} for row, tokens in rows]


class LanguageSource(TextSource):
    """A corpus."""

    kind = "language"

    def __init__(self, rows: TokenizedRows, packed: RowPacking) -> None:
        super().__init__(rows)
        self._form = LanguageFormat(packed.context_length, packed.packing)

    @property
    def form(self) -> LanguageFormat:
        return self._form

    def longer(self, multiple: int) -> LanguageSource:
        longer = copy(self)
        longer._form = self._form.longer(self.content.tables["test"], multiple)
        return longer


def _with_borders(tokens: np.ndarray, special: SpecialIds, decode: Decode) -> str:
    """Return the text of a packed row, with a sign where a new document starts."""
    documents = np.split(tokens, np.flatnonzero(special.beginnings(tokens[None])[0, 1:]) + 1)
    return " ¶ ".join(decode(document.tolist()) for document in documents)


def tokenized(tokenizer: Tokenizer, texts: Sequence[str], *, doing: str) -> Table:
    """Tokenize with several processes, which share a single long text too."""
    if not tokenizer.is_exact:
        return parallel_map(partial(framed_with_bytes, tokenizer), texts, doing=doing)
    table = parallel_map(partial(_encoded_pieces, tokenizer), _DocumentPieces(texts), doing=doing, size_of=_size)
    ends = np.append(0, np.flatnonzero(numbers(table, "is_last")) + 1)
    columns = {name: ragged(table, name) for name in ("tokens", "unknown_bytes")}
    return {name: Ragged(rows.values, rows.offsets[ends]) for name, rows in columns.items()}


Piece = tuple[str, bool, bool]
"""A piece of a text; whether it is the first one, and whether it is the last."""


@dataclass(frozen=True)
class _DocumentPieces:
    """The pieces of all texts, which can be iterated repeatedly."""

    texts: Iterable[str]

    def __iter__(self) -> Iterator[Piece]:
        for text in self.texts:
            *others, last = cut(text)
            for number, piece in enumerate(others):
                yield piece, number == 0, False
            yield last, not others, True


def _size(piece: Piece) -> int:
    return len(piece[0])


def _encoded_pieces(tokenizer: Tokenizer, pieces: Sequence[Piece]) -> Table:
    """Tokenize pieces, adding a start and an end token only where a text starts or ends."""
    texts, *borders = zip(*pieces, strict=True)
    bare, edges = _bare(tokenizer, texts), np.array(borders).T
    tokens = ragged(bare, "tokens")
    indices = np.stack([tokens.offsets[:-1], tokens.offsets[1:]], axis=1)[edges]
    special = np.broadcast_to([tokenizer.special.bos, tokenizer.special.eos], edges.shape)[edges]
    framed = Ragged.of_lengths(np.insert(tokens.values, indices, special), tokens.lengths + edges.sum(axis=1))
    return {**bare, "tokens": framed, "is_last": edges[:, 1]}


def encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> Table:
    """Return tokens between start and end, with the number of bytes of each unknown character."""
    if not tokenizer.is_exact:
        return framed_with_bytes(tokenizer, texts)
    bare = _bare(tokenizer, texts)
    return {**bare, "tokens": tokenizer.framed(ragged(bare, "tokens"))}


def _bare(tokenizer: Tokenizer, texts: Sequence[str]) -> Table:
    tokens = tokenizer.encode(texts)
    return {"tokens": tokens, "unknown_bytes": _unknown_bytes(tokens, texts)}


def _unknown_bytes(bare: Ragged, texts: Sequence[str]) -> Ragged:
    """Return how many bytes each unknown character has, row by row; only single characters can be unknown."""
    unknown = bare.values == UNK
    counts = np.concatenate([[0], np.cumsum(unknown)])[bare.offsets]
    text = "".join(texts) if unknown.any() else ""
    sizes = np.array([len(text[index].encode()) for index in np.flatnonzero(unknown)], dtype=np.uint8)
    return Ragged(sizes, counts.astype(np.int64))
