"""Questions about a text whose answers are parts of the text, marked by their first and last token; or that the text
does not answer (Rajpurkar et al. 2018, https://arxiv.org/abs/1806.03822)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headtohead.data.asked import Asked
from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared
from headtohead.data.contracts import DataError, DataSpec, SplitName
from headtohead.data.judged import second_part
from headtohead.data.question_windows import FRAME, Windows, character_ends
from headtohead.data.rows import as_tensor, padded
from headtohead.data.source import CachedSplit
from headtohead.data.storage import Ragged, Table, numbers, ragged
from headtohead.data.texts import Decode, Form, Place, TextSource, check_text, longest
from headtohead.data.tokenizers import SpecialIds, Tokenizer

_NOWHERE = (-1, -1)


@dataclass(frozen=True)
class Question:
    """`start` is the answer's first character in the context; None means that it stands where it first occurs."""

    question: str
    context: str
    answer: str | None
    """None where the context does not answer the question."""
    start: int | None = None
    others: tuple[str, ...] = ()
    """More answers that count as right."""
    id: str = ""
    """Without one, it goes by its number."""

    @property
    def answers(self) -> tuple[str, ...]:
        return () if self.answer is None else tuple(dict.fromkeys((self.answer, *self.others)))


class QuestionForm(Form[Question]):
    """A row is a start token, the question, an end token, a window of the context and an end token; token types are 0
    and 1. The last token is the target of a window that does not hold the answer."""

    kind = "questions"

    def __init__(self, max_length: int | None = None, stride: int | None = None) -> None:
        """Contexts that would make longer rows are shown in windows that begin `stride` tokens apart, half a window
        where none is given. A question has at most half of the room."""
        if stride is not None and max_length is None:
            raise DataError(f"data.stride={stride} sets windows of long contexts apart: give data.max_length too.")
        if stride is not None and stride < 1:
            raise DataError(f"data.stride={stride} must be at least 1 token.")
        self.max_length, self.stride = max_length, stride

    def parameters(self) -> Mapping[str, Any]:
        return {"max_length": self.max_length, "stride": self.stride}

    def texts(self, sample: Question) -> Iterable[str]:
        return sample.question, sample.context

    def together(self, sample: Question) -> str:
        """No split has a context of another's."""
        return sample.context

    def prepared(self, samples: Mapping[SplitName, Sequence[Question]], tokenizer: Tokenizer, place: Place) -> Prepared:
        tables: dict[str, Table] = {}
        for name, asked in samples.items():
            starts = [_start(sample, place, name, row) for row, sample in enumerate(asked)]
            contexts = list(dict.fromkeys(sample.context for sample in asked))
            number_of = {context: number for number, context in enumerate(contexts)}
            context_of = np.array([number_of[sample.context] for sample in asked])
            tokens = tokenizer.encode(contexts)
            spans = [
                _span(sample, start, tokens[context], tokenizer)
                for sample, start, context in zip(asked, starts, context_of.tolist(), strict=True)
            ]
            questions = tokenizer.encode([sample.question for sample in asked])
            tables[str(name)] = self._rows(questions, tokens, context_of, np.array(spans), tokenizer)
            tables[_questions(name)] = {"context": context_of, "told": _as_bytes(map(_told, asked, range(len(asked))))}
            ends = [character_ends(text, tokens[row], tokenizer) for row, text in enumerate(contexts)]
            in_characters = Ragged(np.concatenate(ends).astype(np.int32), tokens.offsets)
            tables[_contexts(name)] = {"text": _as_bytes(contexts), "ends": in_characters}
        unanswerable = any(sample.answer is None for asked in samples.values() for sample in asked)
        return Prepared(tables, {"has_unanswerable": unanswerable})

    def _rows(
        self, questions: Ragged, contexts: Ragged, context_of: np.ndarray, spans: np.ndarray, tokenizer: Tokenizer
    ) -> Table:
        lengths = contexts.lengths[context_of]
        room = lengths
        if self.max_length is not None:
            questions = questions.cut(np.full(len(questions), (self.max_length - FRAME) // 2))
            room = self.max_length - FRAME - questions.lengths
        windows = Windows.of(room, lengths, self.stride)
        asked = questions.chosen(windows.question)
        first = asked.lengths + 2
        return {
            "tokens": tokenizer.framed(asked, windows.cut(contexts, context_of)),
            "first": first,
            "span": windows.spans(spans) + first[:, None],
            "question": windows.question,
            "begins": windows.begins,
        }

    def spec(self, content: Prepared) -> DataSpec:
        return DataSpec(
            kind=self.kind,
            num_texts=2,
            max_length=longest(content, "tokens"),
            has_unanswerable=content.facts["has_unanswerable"],
            rows_follow_tokens=True,
        )

    def rows(self, source: TextSource, name: SplitName, table: Table) -> QuestionRows:
        tables = source.content.tables
        return QuestionRows(source, name, table, Told(tables[_questions(name)], tables[_contexts(name)]))

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


class Told:
    """The questions and the contexts of a split in words."""

    def __init__(self, questions: Table, contexts: Table) -> None:
        self._context, self._told = numbers(questions, "context"), ragged(questions, "told")
        self._texts, self._ends = ragged(contexts, "text"), ragged(contexts, "ends")

    def asked(self, question: int, begin: int, length: int, first: int) -> Asked:
        """A window of so many tokens that begins at this token of the question's context."""
        id_, answers = json.loads(self._told[question].tobytes())
        context = int(self._context[question])
        ends = self._ends[context]
        edges = np.concatenate([ends[begin - 1 : begin] if begin else np.zeros(1, int), ends[begin : begin + length]])
        text = self._texts[context].tobytes().decode()
        return Asked(question, id_, text, tuple(answers), first, edges)


class QuestionRows(CachedSplit):
    """Padded to the longest of the batch."""

    def __init__(self, source: TextSource, name: SplitName, table: Table, told: Told) -> None:
        super().__init__(source, name)
        self._tokens, self._spans = ragged(table, "tokens"), numbers(table, "span")
        self._first = numbers(table, "first")
        """The lengths of the questions, with start and end."""
        self._question, self._begins, self._told = numbers(table, "question"), numbers(table, "begins"), told
        self._bucket_by_length = source.bucket_by_length

    def __len__(self) -> int:
        return len(self._tokens)

    def lengths(self) -> np.ndarray | None:
        return self._tokens.lengths if self._bucket_by_length else None

    def wholes(self) -> np.ndarray:
        return self._question

    def batch(self, rows: np.ndarray) -> Batch:
        lengths, first = self._tokens.lengths[rows], self._first[rows]
        tokens, valid = padded(self._tokens.values, self._tokens.offsets[rows], lengths)
        shown = zip(self._question[rows], self._begins[rows], lengths - first - 1, first, strict=True)
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=torch.from_numpy(valid),
            token_types=second_part(valid, first),
            targets=as_tensor(self._spans[rows]),
            asked=tuple(self._told.asked(*map(int, window)) for window in shown),
        )


def _questions(name: SplitName) -> str:
    return f"{name}_questions"


def _contexts(name: SplitName) -> str:
    return f"{name}_contexts"


def _told(sample: Question, row: int) -> str:
    return json.dumps([sample.id or str(row), sample.answers], ensure_ascii=False)


def _as_bytes(texts: Iterable[str]) -> Ragged:
    encoded = [text.encode() for text in texts]
    return Ragged.of_lengths(np.frombuffer(b"".join(encoded), np.uint8), np.array([len(text) for text in encoded]))


def _start(sample: Question, place: Place, name: SplitName, row: int) -> int | None:
    """Where the answer begins, once it is sure that it is there; None where there is none."""
    for what in ("question", "context", "answer"):
        if (text := getattr(sample, what)) is not None:
            check_text(text, what, place, name, row)
    if sample.answer is None:
        return None
    start = sample.context.find(sample.answer) if sample.start is None else sample.start
    if start < 0 or not sample.context.startswith(sample.answer, start):
        told = "" if sample.start is None else f" at character {sample.start}"
        raise DataError(
            f"{place(name, row)}: its answer {sample.answer[:60]!r} is not in its context{told}: answers must be parts "
            f"of the context, letter by letter."
        )
    return start


def _span(sample: Question, start: int | None, tokens: np.ndarray, tokenizer: Tokenizer) -> tuple[int, int]:
    """The first and last token that the answer touches."""
    if start is None or sample.answer is None:
        return _NOWHERE
    ends = tokenizer.ends(sample.context, tokens)
    before, upto = (
        tokenizer.width_of(sample.context[:start]),
        tokenizer.width_of(sample.context[: start + len(sample.answer)]),
    )
    return int(np.searchsorted(ends, before, side="right")), int(np.searchsorted(ends, upto, side="left"))
