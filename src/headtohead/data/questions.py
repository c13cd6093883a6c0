"""Questions about a text whose answers are parts of the text, marked by their first and last token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared
from headtohead.data.contracts import DataError, DataSpec, SplitName
from headtohead.data.labelled import second_part
from headtohead.data.rows import as_tensor, padded
from headtohead.data.source import CachedSource, CachedSplit
from headtohead.data.storage import Ragged, Table, numbers, ragged
from headtohead.data.texts import Decode, Form, Place, TextSource, check_text, longest
from headtohead.data.tokenizers import SpecialIds, Tokenizer


@dataclass(frozen=True)
class Question:
    """`start` is the answer's first character in the context; None means that it stands where it first occurs."""

    question: str
    context: str
    answer: str
    start: int | None = None


class QuestionForm(Form[Question]):
    """A row is a start token, the question, an end token, the context and an end token; token types are 0 and 1."""

    kind = "questions"

    def __init__(self, max_length: int | None = None) -> None:
        """Longer rows lose the end of their context."""
        self.max_length = max_length

    def parameters(self) -> Mapping[str, Any]:
        return {"max_length": self.max_length}

    def texts(self, sample: Question) -> Iterable[str]:
        return sample.question, sample.context

    def prepared(self, samples: Mapping[SplitName, Sequence[Question]], tokenizer: Tokenizer, place: Place) -> Prepared:
        tables: dict[str, Table] = {}
        for name, asked in samples.items():
            starts = np.array([_start(sample, place, name, row) for row, sample in enumerate(asked)])
            questions = tokenizer.encode([sample.question for sample in asked])
            contexts = tokenizer.encode([sample.context for sample in asked])
            spans = np.array(
                [
                    _span(sample, start, contexts[row], tokenizer)
                    for row, (sample, start) in enumerate(zip(asked, starts.tolist(), strict=True))
                ]
            )
            if self.max_length is not None:
                room = self.max_length - 3 - questions.lengths
                self._check_room(spans, room, place, name)
                contexts = contexts.cut(room)
            first = questions.lengths + 2
            tables[str(name)] = {
                "tokens": tokenizer.framed(questions, contexts),
                "first": first,
                "span": spans + first[:, None],
            }
        return Prepared(tables)

    def _check_room(self, spans: np.ndarray, room: np.ndarray, place: Place, name: SplitName) -> None:
        lost = np.flatnonzero(spans[:, 1] >= room)
        if len(lost):
            raise DataError(
                f"{place(name, int(lost[0]))}: its answer lies beyond data.max_length={self.max_length} tokens, as do "
                f"those of {len(lost)} rows in all: raise it, leave it null, or shorten the contexts."
            )

    def spec(self, content: Prepared) -> DataSpec:
        return DataSpec(kind=self.kind, num_texts=2, max_length=longest(content, "tokens"))

    def rows(self, source: TextSource, name: SplitName, table: Table) -> QuestionRows:
        first, spans = numbers(table, "first"), numbers(table, "span")
        return QuestionRows(source, name, ragged(table, "tokens"), first, spans, source.bucket_by_length)

    def described(self, batch: Batch, content: Prepared, decode: Decode) -> list[dict[str, Any]]:
        special = SpecialIds.of(content.facts["tokenizer"])
        assert batch.tokens is not None and batch.targets is not None
        samples = []
        for row, tokens, (start, end) in zip(batch.rows, batch.tokens.numpy(), batch.targets.tolist(), strict=True):
            border = special.border(tokens)
            question, context, answer = tokens[:border], tokens[border:], tokens[start : end + 1]
            texts = {"question": question, "context": context, "answer": answer}
            samples.append({"row": int(row), **{name: decode(part.tolist()).strip() for name, part in texts.items()}})
        return samples


class QuestionRows(CachedSplit):
    """Padded to the longest of the batch."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        tokens: Ragged,
        first: np.ndarray,
        spans: np.ndarray,
        bucket_by_length: bool,
    ) -> None:
        """`first` are the lengths of the questions, with start and end."""
        super().__init__(source, name)
        self._tokens, self._first, self._spans, self._bucket_by_length = tokens, first, spans, bucket_by_length

    def __len__(self) -> int:
        return len(self._tokens)

    def lengths(self) -> np.ndarray | None:
        return self._tokens.lengths if self._bucket_by_length else None

    def batch(self, rows: np.ndarray) -> Batch:
        tokens, valid = padded(self._tokens.values, self._tokens.offsets[rows], self._tokens.lengths[rows])
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=torch.from_numpy(valid),
            token_types=second_part(valid, self._first[rows]),
            targets=as_tensor(self._spans[rows]),
        )


def _start(sample: Question, place: Place, name: SplitName, row: int) -> int:
    """Where the answer begins, once it is sure that it is there."""
    for what in ("question", "context", "answer"):
        check_text(getattr(sample, what), what, place, name, row)
    start = sample.context.find(sample.answer) if sample.start is None else sample.start
    if start < 0 or not sample.context.startswith(sample.answer, start):
        told = "" if sample.start is None else f" at character {sample.start}"
        raise DataError(
            f"{place(name, row)}: its answer {sample.answer[:60]!r} is not in its context{told}: answers must be parts "
            f"of the context, letter by letter."
        )
    return start


def _span(sample: Question, start: int, tokens: np.ndarray, tokenizer: Tokenizer) -> tuple[int, int]:
    """The first and last token that the answer touches."""
    ends = tokenizer.ends(sample.context, tokens)
    before, upto = (
        tokenizer.width_of(sample.context[:start]),
        tokenizer.width_of(sample.context[: start + len(sample.answer)]),
    )
    return int(np.searchsorted(ends, before, side="right")), int(np.searchsorted(ends, upto, side="left"))
