"""Columns of a table as samples: which columns are given says what kind of data it is, whatever file they come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from headtohead.data.contracts import DataError, DataKind
from headtohead.data.questions import Question
from headtohead.data.tables.parts import PARTS, kind_of_parts

Row = Mapping[str, Any]
"""What a row of a file holds, by the part that it plays."""
Where = Callable[[], str]


@dataclass(frozen=True)
class Columns:
    """Names of columns by the part they play; None where there is none. No field set means: to be guessed."""

    text: str | None = None
    second_text: str | None = None
    label: str | None = None
    score: str | None = None
    tags: str | None = None
    question: str | None = None
    context: str | None = None
    answer: str | None = None
    answer_start: str | None = None
    id: str | None = None
    source: str | None = None
    target: str | None = None

    @property
    def given(self) -> dict[str, str]:
        return {part.name: name for part in fields(self) if (name := getattr(self, part.name)) is not None}


_USUAL_NAMES: tuple[tuple[DataKind, Columns], ...] = (
    ("questions", Columns(question="question", context="context", answer="answers", id="id")),
    ("questions", Columns(question="question", context="context", answer="answers")),
    ("questions", Columns(question="question", context="context", answer="answer")),
    ("tagged_text", Columns(text="tokens", tags="ner_tags")),
    ("tagged_text", Columns(text="tokens", tags="tags")),
    ("tagged_text", Columns(text="words", tags="tags")),
    ("pairs_of_text", Columns(source="source", target="target")),
    ("scored_text", Columns(text="sentence1", second_text="sentence2", score="score")),
    ("scored_text", Columns(text="sentence1", second_text="sentence2", score="similarity_score")),
    ("labelled_text", Columns(text="premise", second_text="hypothesis", label="label")),
    ("labelled_text", Columns(text="sentence1", second_text="sentence2", label="label")),
    ("labelled_text", Columns(text="text", label="label")),
    ("labelled_text", Columns(text="sentence", label="label")),
    ("language", Columns(text="text")),
)
"""Names that leave no doubt, the first match counts."""


def kind_of(
    columns: Columns, found: Sequence[str], *, file: str, otherwise: str = ""
) -> tuple[DataKind, dict[str, str]]:
    """The kind of data, and the column of each part; `found` are the columns that the file has, and `otherwise` what
    may help besides naming them, as it ends a sentence."""
    if not columns.given:
        return _guessed(found, file, otherwise)
    for part, name in columns.given.items():
        if name not in found:
            raise DataError(
                f"{file} has no column {name!r}, it has {', '.join(map(repr, found))}: correct data.{part}_column"
                f"{otherwise}."
            )
    if (kind := kind_of_parts(columns.given)) is not None:
        return kind, columns.given
    named = " and ".join(f"data.{part}_column" for part in columns.given)
    raise DataError(f"{named} do not make a kind of data together: {ways()}.")


def _guessed(found: Sequence[str], file: str, otherwise: str) -> tuple[DataKind, dict[str, str]]:
    for kind, usual in _USUAL_NAMES:
        if set(usual.given.values()) <= set(found):
            return kind, usual.given
    names = ", ".join(map(repr, found))
    raise DataError(f"{file} has the columns {names}, which do not say what they are: {ways()}{otherwise}.")


def ways() -> str:
    found = []
    for kind, (needed, optional) in PARTS.items():
        names = [f"data.{part}_column" for part in sorted(needed)]
        found.append(f"{' '.join(names)}{''.join(f' [data.{part}_column]' for part in sorted(optional))} for {kind}")
    return "give " + "; ".join(found)


def sample_of(kind: DataKind, row: Row, where: Where) -> Any:
    """The sample of a row, as the form of its kind takes it."""
    if kind == "language":
        return _text(row, "text", where)
    if kind == "labelled_text":
        texts = [_text(row, part, where) for part in ("text", "second_text") if part in row]
        return (*texts, _label(row["label"], "label", where))
    if kind == "scored_text":
        return (*(_text(row, part, where) for part in ("text", "second_text") if part in row), _score(row, where))
    if kind == "tagged_text":
        words, tags = _listed(row["text"], "words", where), _listed(row["tags"], "tags", where)
        whole = tuple(_whole(str(word), "words", where) for word in words)
        return whole, tuple(_label(tag, "tag", where) for tag in tags)
    if kind == "pairs_of_text":
        return _text(row, "source", where), _text(row, "target", where)
    return _question(row, where)


def _text(row: Row, part: str, where: Where) -> str:
    value = row[part]
    if isinstance(value, str):
        return _whole(value, part, where)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    told = "is empty" if value is None else f"is {value!r}"
    raise DataError(f"{where()}: its {part.replace('_', ' ')} {told}, and must be text; correct or remove the row.")


def _whole(text: str, part: str, where: Where) -> str:
    """JSON can hold half of a sign that UTF-16 writes in two, which is no text."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{where()}: its {part.replace('_', ' ')} {'have' if part == 'words' else 'has'} half a sign "
                f"(\\u{ord(text[error.start]):04x}) at character {error.start}, which is no text; correct or remove "
                "the row."
            ) from None
    return text


def _label(value: Any, what: str, where: Where) -> str:
    """Names as they are; whole numbers as their digits, whichever way they are written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value == value // 1:
        value = int(value)
    if isinstance(value, int) or (isinstance(value, str) and value.strip()):
        return str(value).strip()
    told = "is empty" if value is None or value == "" else f"is {value!r}"
    raise DataError(f"{where()}: its {what} {told}, and must be a name or a whole number; correct or remove the row.")


def _score(row: Row, where: Where) -> float:
    value = row["score"]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{where()}: its score is {value!r}, and must be a number; correct or remove the row.")
    return number


def _listed(value: Any, what: str, where: Where) -> Sequence[Any]:
    """A list, or a text of words with blanks between."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, Sequence):
        return value
    raise DataError(f"{where()}: its {what} are {value!r}, and must be a list, or words with blanks between.")


def _question(row: Row, where: Where) -> Question:
    """An answer is a text, or, as in SQuAD, texts with their places: the first is learned, all count as right. No
    texts at all say that the context does not answer the question."""
    given: Any = row["answer"]
    if isinstance(given, Sequence) and given and isinstance(given[0], Mapping):
        given = {name: [answer.get(name) for answer in given] for name in ("text", "answer_start")}
    nested = isinstance(given, Mapping)
    answers = _each(given.get("text") if nested else given)
    starts = _each(given.get("answer_start") if nested else row.get("answer_start"))
    if answers == [None]:
        raise DataError(f"{where()} has no answer: give one, or an empty list where its context has none.")
    start = starts[0] if starts and answers else None
    number = str(start).removesuffix(".0")
    if start is not None and not number.isdecimal():
        raise DataError(f"{where()}: its answer starts at {start!r}, which must be the number of a character.")
    question, context = (_text(row, part, where) for part in ("question", "context"))
    texts = [_text({"answer": answer}, "answer", where) for answer in answers]
    return Question(
        question,
        context,
        texts[0] if texts else None,
        None if start is None else int(number),
        tuple(texts[1:]),
        id="" if row.get("id") is None else str(row["id"]),
    )


def _each(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
