"""Questions about a text whose answers are parts of the text, marked by their first and last token; or that the text
does not answer (Rajpurkar et al. 2018, https://arxiv.org/abs/1806.03822)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headtohead.data.batches.batch import Batch, QuestionText
from headtohead.data.cache.arrow_columns import Ragged, Table, numbers, ragged
from headtohead.data.cache.cached_source import CachedSplit
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import DataError, DataSpec, SplitName
from headtohead.data.row_formats.labelled_text import second_segment
from headtohead.data.row_formats.text_source import Decode, RowFormat, SampleOrigin, TextSource, check_text, longest
from headtohead.data.row_formats.token_rows import as_tensor, padded
from headtohead.data.tokenizers import SpecialIds, Tokenizer

# Contexts that are longer than a row, as windows that overlap, so that some window contains each answer as a whole
# (Devlin et al. 2019, https://arxiv.org/abs/1810.04805).


FRAME = 3
"""A start token, and an end token after each of the two parts."""


@dataclass(frozen=True)
class Windows:
    """The question of each row, and the stretch of the question's context that the row shows."""

    question: np.ndarray
    begins: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, room: np.ndarray, lengths: np.ndarray, stride: int | None) -> Windows:
        """Divide contexts of these lengths where a row has this much room; windows begin `stride` tokens apart, half a
        window where none is given, and cover everything."""
        step = np.maximum(room // 2 if stride is None else np.minimum(room, stride), 1)
        counts = 1 + np.maximum(-(-(lengths - room) // step), 0)
        question = np.repeat(np.arange(len(lengths)), counts)
        index = np.arange(len(question)) - np.repeat(np.cumsum(counts) - counts, counts)
        begins = index * step[question]
        return cls(question, begins, np.minimum(lengths[question] - begins, room[question]))

    def __len__(self) -> int:
        return len(self.question)

    def cut(self, contexts: Ragged, context_of: np.ndarray) -> Ragged:
        """Return the windows' tokens; `context_of` holds the context of each question."""
        starts = contexts.offsets[context_of[self.question]] + self.begins
        cut = Ragged.of_lengths(contexts.values[:0], self.lengths)
        indices = np.arange(cut.offsets[-1]) + np.repeat(starts - cut.offsets[:-1], self.lengths)
        return Ragged(contexts.values[indices], cut.offsets)

    def spans(self, of_questions: np.ndarray) -> np.ndarray:
        """Return the first and last token of an answer, counted from the window's begin; the position after the
        window's last token where it does not contain the whole answer, or there is none (-1)."""
        spans = of_questions[self.question] - self.begins[:, None]
        is_whole = (spans[:, 0] >= 0) & (spans[:, 1] < self.lengths) & (of_questions[self.question, 0] >= 0)
        return np.where(is_whole[:, None], spans, self.lengths[:, None])


def character_ends(text: str, tokens: np.ndarray, tokenizer: Tokenizer) -> np.ndarray:
    """Return where in a text each of its tokens ends, in characters; a character that several tokens share belongs to
    the first."""
    ends = tokenizer.ends(text, tokens)
    if tokenizer.kind == "char" or text.isascii():
        return ends
    begins = np.cumsum([0, *(len(sign.encode()) for sign in text)])[:-1]
    return np.searchsorted(begins, ends, side="left")


_NOWHERE = (-1, -1)


@dataclass(frozen=True)
class Question:
    """A question about a context; `start` is the answer's first character there, None means its first occurrence."""

    question: str
    context: str
    answer: str | None
    """The answer; None where the context does not contain one."""
    start: int | None = None
    others: tuple[str, ...] = ()
    """More answers that count as right."""
    id: str = ""
    """The id; the question's index where there is none."""

    @property
    def answers(self) -> tuple[str, ...]:
        return () if self.answer is None else tuple(dict.fromkeys((self.answer, *self.others)))


class QuestionFormat(RowFormat[Question]):
    """A row is a start token, the question, an end token, a window of the context and an end token; token types are 0
    and 1. The last token is the target of a window that does not hold the answer."""

    kind = "questions"

    def __init__(self, max_length: int | None = None, stride: int | None = None) -> None:
        """Set up the format; longer contexts are shown in windows that begin `stride` tokens apart, half a window where
        none is given. A question takes at most half of the room."""
        if stride is not None and max_length is None:
            raise DataError(f"data.stride={stride} sets windows of long contexts apart: give data.max_length too.")
        if stride is not None and stride < 1:
            raise DataError(f"data.stride={stride} must be at least 1 token.")
        self.max_length, self.stride = max_length, stride

    def parameters(self) -> Mapping[str, object]:
        return {"max_length": self.max_length, "stride": self.stride}

    def texts(self, sample: Question) -> Iterable[str]:
        return sample.question, sample.context

    def together(self, sample: Question) -> str:
        """Return the context, which no two splits may share."""
        return sample.context

    def prepared(
        self, samples: Mapping[SplitName, Sequence[Question]], tokenizer: Tokenizer, index: SampleOrigin
    ) -> PreparedContent:
        tables: dict[str, Table] = {}
        for name, own in samples.items():
            starts = [_start(sample, index, name, row) for row, sample in enumerate(own)]
            contexts = list(dict.fromkeys(sample.context for sample in own))
            number_of = {context: number for number, context in enumerate(contexts)}
            context_of = np.array([number_of[sample.context] for sample in own])
            tokens = tokenizer.encode(contexts)
            spans = [
                _span(sample, start, tokens[context], tokenizer)
                for sample, start, context in zip(own, starts, context_of.tolist(), strict=True)
            ]
            questions = tokenizer.encode([sample.question for sample in own])
            tables[str(name)] = self._rows(questions, tokens, context_of, np.array(spans), tokenizer)
            tables[_questions(name)] = {
                "context": context_of,
                "told": _as_bytes(map(_id_and_answers, own, range(len(own)))),
            }
            ends = [character_ends(text, tokens[row], tokenizer) for row, text in enumerate(contexts)]
            in_characters = Ragged(np.concatenate(ends).astype(np.int32), tokens.offsets)
            tables[_contexts(name)] = {"text": _as_bytes(contexts), "ends": in_characters}
        unanswerable = any(sample.answer is None for questions in samples.values() for sample in questions)
        return PreparedContent(tables, {"has_unanswerable": unanswerable})

    def _rows(
        self, questions: Ragged, contexts: Ragged, context_of: np.ndarray, spans: np.ndarray, tokenizer: Tokenizer
    ) -> Table:
        lengths = contexts.lengths[context_of]
        room = lengths
        if self.max_length is not None:
            questions = questions.cut(np.full(len(questions), (self.max_length - FRAME) // 2))
            room = self.max_length - FRAME - questions.lengths
        windows = Windows.of(room, lengths, self.stride)
        windowed = questions.chosen(windows.question)
        first = windowed.lengths + 2
        return {
            "tokens": tokenizer.framed(windowed, windows.cut(contexts, context_of)),
            "first": first,
            "span": windows.spans(spans) + first[:, None],
            "question": windows.question,
            "begins": windows.begins,
        }

    def spec(self, content: PreparedContent) -> DataSpec:
        return DataSpec(
            kind=self.kind,
            num_texts=2,
            max_length=longest(content, "tokens"),
            has_unanswerable=content.facts["has_unanswerable"],
            rows_follow_tokens=True,
        )

    def rows(self, source: TextSource, name: SplitName, table: Table) -> QuestionRows:
        tables = source.content.tables
        return QuestionRows(source, name, table, QuestionRecords(tables[_questions(name)], tables[_contexts(name)]))

    def described(self, batch: Batch, content: PreparedContent, decode: Decode) -> list[dict[str, Any]]:
        special = SpecialIds.of(content.facts["tokenizer"])
        assert batch.tokens is not None and batch.targets is not None
        samples = []
        for row, tokens, (start, end) in zip(batch.rows, batch.tokens.numpy(), batch.targets.tolist(), strict=True):
            border = special.border(tokens)
            question, context, answer = tokens[:border], tokens[border:], tokens[start : end + 1]
            texts = {"question": question, "context": context, "answer": answer}
            samples.append({"row": int(row), **{name: decode(part.tolist()).strip() for name, part in texts.items()}})
        return samples


class QuestionRecords:
    """The questions and the contexts of a split in words."""

    def __init__(self, questions: Table, contexts: Table) -> None:
        self._context, self._records = numbers(questions, "context"), ragged(questions, "told")
        self._texts, self._ends = ragged(contexts, "text"), ragged(contexts, "ends")

    def question_text(self, question: int, begin: int, length: int, first: int) -> QuestionText:
        """Return the question of a window of so many tokens that begins at this token of the question's context."""
        id_, answers = json.loads(self._records[question].tobytes())
        context = int(self._context[question])
        ends = self._ends[context]
        edges = np.concatenate([ends[begin - 1 : begin] if begin else np.zeros(1, int), ends[begin : begin + length]])
        text = self._texts[context].tobytes().decode()
        return QuestionText(question, id_, text, tuple(answers), first, edges)


class QuestionRows(CachedSplit):
    """Padded to the longest of the batch."""

    def __init__(self, source: TextSource, name: SplitName, table: Table, records: QuestionRecords) -> None:
        super().__init__(source, name)
        self._tokens, self._spans = ragged(table, "tokens"), numbers(table, "span")
        self._first = numbers(table, "first")
        """The lengths of the questions, with start and end."""
        self._question, self._begins, self._records = numbers(table, "question"), numbers(table, "begins"), records
        self._bucket_by_length = source.bucket_by_length

    def __len__(self) -> int:
        return len(self._tokens)

    def lengths(self) -> np.ndarray | None:
        return self._tokens.lengths if self._bucket_by_length else None

    def group_ids(self) -> np.ndarray:
        return self._question

    def batch(self, rows: np.ndarray) -> Batch:
        lengths, first = self._tokens.lengths[rows], self._first[rows]
        tokens, valid = padded(self._tokens.values, self._tokens.offsets[rows], lengths)
        shown = zip(self._question[rows], self._begins[rows], lengths - first - 1, first, strict=True)
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=torch.from_numpy(valid),
            token_types=second_segment(valid, first),
            targets=as_tensor(self._spans[rows]),
            questions=tuple(self._records.question_text(*map(int, window)) for window in shown),
        )


def _questions(name: SplitName) -> str:
    return f"{name}_questions"


def _contexts(name: SplitName) -> str:
    return f"{name}_contexts"


def _id_and_answers(sample: Question, row: int) -> str:
    return json.dumps([sample.id or str(row), sample.answers], ensure_ascii=False)


def _as_bytes(texts: Iterable[str]) -> Ragged:
    encoded = [text.encode() for text in texts]
    return Ragged.of_lengths(np.frombuffer(b"".join(encoded), np.uint8), np.array([len(text) for text in encoded]))


def _start(sample: Question, index: SampleOrigin, name: SplitName, row: int) -> int | None:
    """Return where the answer begins, once it is certain that it is there; None where there is none."""
    for what in ("question", "context", "answer"):
        if (text := getattr(sample, what)) is not None:
            check_text(text, what, index, name, row)
    if sample.answer is None:
        return None
    start = sample.context.find(sample.answer) if sample.start is None else sample.start
    if start < 0 or not sample.context.startswith(sample.answer, start):
        location = "" if sample.start is None else f" at character {sample.start}"
        raise DataError(
            f"{index(name, row)}: its answer {sample.answer[:60]!r} is not in its context{location}: answers must be "
            f"parts "
            f"of the context, letter by letter."
        )
    return start


def _span(sample: Question, start: int | None, tokens: np.ndarray, tokenizer: Tokenizer) -> tuple[int, int]:
    """Return the first and last token that the answer touches."""
    if start is None or sample.answer is None:
        return _NOWHERE
    ends = tokenizer.ends(sample.context, tokens)
    before, upto = (
        tokenizer.width_of(sample.context[:start]),
        tokenizer.width_of(sample.context[: start + len(sample.answer)]),
    )
    return int(np.searchsorted(ends, before, side="right")), int(np.searchsorted(ends, upto, side="left"))
