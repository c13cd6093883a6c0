"""A corpus as rows of tokens for language models: documents, tokenized, then packed or padded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from headtohead.data.batch import Batch
from headtohead.data.byte_counting import byte_counter, framed_with_bytes
from headtohead.data.caching import Prepared
from headtohead.data.contracts import DataError, DataSpec, Split, SplitName
from headtohead.data.keeping import Keeps, KeptTexts
from headtohead.data.leaks import Compared, Matches, stretches, without
from headtohead.data.rows import PackedRows, PaddedRows
from headtohead.data.storage import Ragged, Table, numbers, ragged
from headtohead.data.texts import Decode, Form, Place, TextSource
from headtohead.data.tokenizers import UNK, SpecialIds, Tokenizer, TokenizerName
from headtohead.data.tokenizers.cutting import cut
from headtohead.data.tokenizing import shared_out
from headtohead.data.windows import StridedRows

Packing = Literal["apart", "stream", "none"]
"""apart: documents share rows and do not see each other; stream: they do see what came before; none: one per row."""
_LONG_SHARE = 0.5
"""Of the test text that must be in documents longer than a row, for longer rows to mean more in sight."""


class LanguageForm(Form[str]):
    """Documents, none of them empty, each between a start and an end token; a row holds context_length + 1 tokens."""

    kind = "language"

    def __init__(self, context_length: int, packing: Packing) -> None:
        if context_length < 1:
            raise DataError(f"data.context_length={context_length} must be at least 1.")
        if packing not in get_args(Packing):
            raise DataError(f"data.packing={packing} is unknown: choose one of {', '.join(get_args(Packing))}.")
        self.context_length, self.packing = context_length, packing

    def view_parameters(self) -> Mapping[str, Any]:
        return {"context_length": self.context_length, "packing": self.packing}

    def texts(self, sample: str) -> Iterable[str]:
        return (sample,)

    unit = "stretches"

    def pieces(self, sample: str) -> Sequence[Compared]:
        return stretches(sample)

    def without(self, sample: str, matches: Matches) -> str | None:
        left = without(sample, matches)
        return left if left.strip() else None

    def keeping(self) -> Keeps:
        return KeptTexts()

    def prepared(self, samples: Mapping[SplitName, Sequence[str]], tokenizer: Tokenizer, place: Place) -> Prepared:
        del place
        return Prepared(
            {str(name): tokenized(tokenizer, texts, doing=f"tokenizing {name}") for name, texts in samples.items()}
        )

    def spec(self, content: Prepared) -> DataSpec:
        del content
        return DataSpec(kind=self.kind, max_length=self.context_length + 1, rows_follow_tokens=True)

    def rows(self, source: TextSource, name: SplitName, table: Table) -> Split:
        documents, counter = ragged(table, "tokens"), byte_counter(source.tokenizer, table)
        row_length = self.context_length + 1
        if self.packing == "none":
            return PaddedRows(source, name, documents, row_length=row_length, byte_counter=counter)
        if len(documents.values) < row_length:
            raise DataError(
                f"the {name} split of data={source.name} has {len(documents.values)} tokens, too few for one row of "
                f"data.context_length={self.context_length} and one more: give more text or a smaller context_length."
            )
        apart = self.packing == "apart" and len(documents) > 1
        borders = source.tokenizer.special if apart else None
        return PackedRows(source, name, documents.values, row_length=row_length, borders=borders, byte_counter=counter)

    def windows(self, source: TextSource, name: SplitName, table: Table, *, length: int, stride: int) -> Split:
        """Each document by itself; with packing=stream all of them as one."""
        del name
        documents, counter = ragged(table, "tokens"), byte_counter(source.tokenizer, table)
        if self.packing == "stream":
            documents = Ragged(documents.values, np.array([0, len(documents.values)]))
        return StridedRows(documents, length=length, stride=stride, byte_counter=counter)

    def longer(self, test: Table, multiple: int) -> LanguageForm:
        """Rows of more context; where documents are read apart, they must be long themselves for that to be more."""
        length, documents = multiple * self.context_length, ragged(test, "tokens").lengths
        enough = documents[documents > length].sum() >= _LONG_SHARE * documents.sum()
        if self.packing != "stream" and not enough:
            raise DataError(
                f"with data.packing={self.packing} nothing is read across documents, and most of the test text is in "
                f"documents of fewer than {length} tokens: use data.packing=stream, or longer documents"
            )
        return LanguageForm(length, self.packing)

    def described(self, batch: Batch, content: Prepared, decode: Decode) -> list[dict[str, Any]]:
        assert batch.tokens is not None
        special = SpecialIds.of(content.facts["tokenizer"])
        rows = zip(batch.rows, batch.tokens, strict=True)
        return [{"row": int(row), "text": _with_borders(tokens.numpy(), special, decode)} for row, tokens in rows]


class LanguageSource(TextSource):
    """A corpus."""

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
        super().__init__(batch_size=batch_size, tokenizer=tokenizer, vocab_size=vocab_size)
        self._form = LanguageForm(context_length, packing)

    @property
    def form(self) -> LanguageForm:
        return self._form

    def longer(self, multiple: int) -> LanguageSource:
        longer = copy(self)
        longer._form = self._form.longer(self.content.tables["test"], multiple)
        return longer


def _with_borders(tokens: np.ndarray, special: SpecialIds, decode: Decode) -> str:
    """A packed row, with a sign where a new document begins."""
    documents = np.split(tokens, np.flatnonzero(special.beginnings(tokens[None])[0, 1:]) + 1)
    return " ¶ ".join(decode(document.tolist()) for document in documents)


def tokenized(tokenizer: Tokenizer, texts: Sequence[str], *, doing: str) -> Table:
    """`encoded` by several processes, which share a single long text too."""
    if not tokenizer.is_exact:
        return shared_out(partial(framed_with_bytes, tokenizer), texts, doing=doing)
    table = shared_out(partial(_encoded_pieces, tokenizer), _Pieces(texts), doing=doing, size_of=_size)
    ends = np.append(0, np.flatnonzero(numbers(table, "is_last")) + 1)
    columns = {name: ragged(table, name) for name in ("tokens", "unknown_bytes")}
    return {name: Ragged(rows.values, rows.offsets[ends]) for name, rows in columns.items()}


Piece = tuple[str, bool, bool]
"""Of a text; whether it is the first one, and whether it is the last."""


@dataclass(frozen=True)
class _Pieces:
    """Those of all texts, as often as they are asked for."""

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
    """As `encoded`, but that a start and an end token are only where the text has them."""
    texts, *borders = zip(*pieces, strict=True)
    bare, edges = _bare(tokenizer, texts), np.array(borders).T
    tokens = ragged(bare, "tokens")
    places = np.stack([tokens.offsets[:-1], tokens.offsets[1:]], axis=1)[edges]
    special = np.broadcast_to([tokenizer.special.bos, tokenizer.special.eos], edges.shape)[edges]
    framed = Ragged.of_lengths(np.insert(tokens.values, places, special), tokens.lengths + edges.sum(axis=1))
    return {**bare, "tokens": framed, "is_last": edges[:, 1]}


def encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> Table:
    """Between start and end, with how many bytes each unknown character has."""
    if not tokenizer.is_exact:
        return framed_with_bytes(tokenizer, texts)
    bare = _bare(tokenizer, texts)
    return {**bare, "tokens": tokenizer.framed(ragged(bare, "tokens"))}


def _bare(tokenizer: Tokenizer, texts: Sequence[str]) -> Table:
    tokens = tokenizer.encode(texts)
    return {"tokens": tokens, "unknown_bytes": _unknown_bytes(tokens, texts)}


def _unknown_bytes(bare: Ragged, texts: Sequence[str]) -> Ragged:
    """How many bytes each unknown character has, row by row; only single characters can be unknown."""
    unknown = bare.values == UNK
    counts = np.concatenate([[0], np.cumsum(unknown)])[bare.offsets]
    whole = "".join(texts) if unknown.any() else ""
    sizes = np.array([len(whole[place].encode()) for place in np.flatnonzero(unknown)], dtype=np.uint8)
    return Ragged(sizes, counts.astype(np.int64))
