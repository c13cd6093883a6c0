"""Columns of a table become samples: the columns given determine the kind of data, whatever file they come from."""

from __future__ import annotations

import math
import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from headtohead.data.data_source import DataError, DataKind
from headtohead.data.row_formats.questions import Question
from headtohead.data.sources.column_roles import COLUMN_ROLES, kind_of_roles
from headtohead.field_group import FieldGroup


def names_with_nested(columns: Mapping[str, object]) -> list[str]:
    """Return the columns of a sample row, those with nested columns followed by these, with dots."""
    names: list[str] = []
    for name, value in columns.items():
        names.append(name)
        inner = _first_mapping(value)
        if inner is not None:
            names += [f"{name}.{below}" for below in names_with_nested(inner)]
    return names


def split_name(name: str, columns: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the top-level column that contains a name, and the path from there; a column with a dot in its own name is
    itself."""
    if name in columns:
        return name, ()
    first, *rest = name.split(".")
    return first, tuple(rest)


def within(value: Any, way: Sequence[str]) -> Any:
    """Return what is at a path inside a value; for a list, in each of its entries; None below what is None."""
    if not way or value is None:
        return value
    if isinstance(value, Mapping):
        return within(value[way[0]], way[1:])
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [within(entry, way) for entry in value]
    raise KeyError(way[0])


def _first_mapping(value: Any) -> Mapping[str, object] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return _first_mapping(value[0])
    return None


Row = Mapping[str, Any]
"""The values of a row of a file, by role."""
Where = Callable[[], str]


@dataclass(frozen=True)
class SampleColumns(FieldGroup):
    """Names of columns by the part they play; None where there is none. No field set means: to be guessed."""

    text_column: str | None = None
    second_text_column: str | None = None
    label_column: str | None = None
    score_column: str | None = None
    tags_column: str | None = None
    question_column: str | None = None
    context_column: str | None = None
    """The text in which a question's answer stands."""
    answer_column: str | None = None
    """The answer to a question, a part of its context; several answers as a list."""
    answer_start_column: str | None = None
    id_column: str | None = None
    source_column: str | None = None
    target_column: str | None = None
    """The text to write for that of source_column."""

    def by_part(self) -> dict[str, str]:
        """Return the column of each part that has one, {"text": "sentence"}."""
        named = {field.name.removesuffix("_column"): getattr(self, field.name) for field in fields(self)}
        return {part: name for part, name in named.items() if name is not None}


_USUAL_NAMES: tuple[tuple[DataKind, dict[str, str]], ...] = (
    ("questions", {"question": "question", "context": "context", "answer": "answers", "id": "id"}),
    ("questions", {"question": "question", "context": "context", "answer": "answers"}),
    ("questions", {"question": "question", "context": "context", "answer": "answer"}),
    ("tagged_text", {"text": "tokens", "tags": "ner_tags"}),
    ("tagged_text", {"text": "tokens", "tags": "tags"}),
    ("tagged_text", {"text": "words", "tags": "tags"}),
    ("pairs_of_text", {"source": "source", "target": "target"}),
    ("scored_text", {"text": "sentence1", "second_text": "sentence2", "score": "score"}),
    ("scored_text", {"text": "sentence1", "second_text": "sentence2", "score": "similarity_score"}),
    ("labelled_text", {"text": "premise", "second_text": "hypothesis", "label": "label"}),
    ("labelled_text", {"text": "sentence1", "second_text": "sentence2", "label": "label"}),
    ("labelled_text", {"text": "text", "label": "label"}),
    ("labelled_text", {"text": "sentence", "label": "label"}),
    ("language", {"text": "text"}),
)
"""Names that leave no doubt, the first match counts."""


def kind_of(
    columns: Mapping[str, str], header: Sequence[str], *, file: str, otherwise: str = ""
) -> tuple[DataKind, dict[str, str]]:
    """Return the kind of data, and the column of each role; `columns` are those that the user named, `result` those of
    the file, and `otherwise` ends the error message with other remedies."""
    if not columns:
        return _guessed(header, file, otherwise)
    for part, name in columns.items():
        if name not in header:
            raise DataError(
                f"{file} has no column {name!r}, it has {names_in_short(header, repr)}: correct data.{part}_column"
                f"{otherwise}."
            )
    if (kind := kind_of_roles(columns)) is not None:
        return kind, dict(columns)
    named = " and ".join(f"data.{part}_column" for part in columns)
    raise DataError(f"{named} do not make a kind of data together: {translation_direction()}.")


def usual_parts(names: Sequence[str]) -> tuple[DataKind, dict[str, str]] | None:
    """Return what columns are by their names, where these leave no doubt."""
    for kind, usual in _USUAL_NAMES:
        if set(usual.values()) <= set(names):
            return kind, dict(usual)
    return None


def _guessed(header: Sequence[str], file: str, otherwise: str) -> tuple[DataKind, dict[str, str]]:
    if (usual := usual_parts(header)) is not None:
        return usual
    names = names_in_short(header, _shortened)
    if otherwise and looks_like_a_row(header):
        numbered = [f"column_{number}" for number in range(1, len(header) + 1)]
        names_to_give = ",".join(("text", "label") if len(header) == 2 else numbered)
        raise DataError(
            f"{file} begins with a row, {names}, and no line that names its columns: name them, "
            f"data.column_names=[{names_to_give}]; if they are names, {translation_direction()}."
        )
    raise DataError(
        f"{file} has the columns {names}, which do not say what they are: h2h data {shlex.quote(file)} guesses it, and "
        f"shows the command; or {translation_direction()}{otherwise}."
    )


_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_SENTENCE = 6
"""Words from which on the name of a column is a text, and the first line of its file a row."""
_SHOWN = 60
_MOST_SHOWN = 20


def looks_like_a_row(header: Sequence[str]) -> bool:
    """Return whether a header is a row: one of its names is a sentence or a number."""
    return any(len(name.split()) >= _SENTENCE or _NUMBER.fullmatch(name.strip()) is not None for name in header)


def names_in_short(names: Sequence[str], shown: Callable[[str], str] = str) -> str:
    """Return the names of columns in a sentence, of very many the first."""
    more = len(names) - _MOST_SHOWN
    return ", ".join(map(shown, names[:_MOST_SHOWN])) + (f" and {more:,} more" if more > 0 else "")


def _shortened(name: str) -> str:
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")


def translation_direction() -> str:
    hints = []
    for kind, (needed, optional) in COLUMN_ROLES.items():
        names = [f"data.{part}_column" for part in sorted(needed)]
        hints.append(f"{' '.join(names)}{''.join(f' [data.{part}_column]' for part in sorted(optional))} for {kind}")
    return "give " + "; ".join(hints)


def sample_of(kind: DataKind, row: Row, where: Where) -> Any:
    """Return the sample of a row that has all its values, in the type of its row format."""
    if kind == "language":
        return _text(row, "text", where)
    if kind == "labelled_text":
        texts = [_text(row, part, where) for part in ("text", "second_text") if part in row]
        return (*texts, _label(row["label"], "label", where))
    if kind == "scored_text":
        return (*(_text(row, part, where) for part in ("text", "second_text") if part in row), _score(row, where))
    if kind == "tagged_text":
        words, tags = _listed(row["text"], "words", where), _listed(row["tags"], "tags", where)
        checked = tuple(_without_surrogates(str(word), "words", where) for word in words)
        return checked, tuple(_label(tag, "tag", where) for tag in tags)
    if kind == "pairs_of_text":
        return _text(row, "source", where), _text(row, "target", where)
    return _question(row, where)


def _text(row: Row, part: str, where: Where) -> str:
    value = row[part]
    if isinstance(value, str):
        return _without_surrogates(value, part, where)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise DataError(
        f"{where()}: its {part.replace('_', ' ')} is {value!r}, and must be text; correct or remove the row."
    )


def _without_surrogates(text: str, part: str, where: Where) -> str:
    """Check a text for lone surrogates, which JSON can contain."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{where()}: its {part.replace('_', ' ')} {'have' if part == 'words' else 'has'} half a sign "
                f"(\\u{ord(text[error.start]):04x}) at character {error.start}, which is not text; correct or remove "
                "the row."
            ) from None
    return text


_WHOLE_WITH_POINT = re.compile(r"-?(0|[1-9][0-9]*)\.0+")
"""A class number as programs write a column of integers in which one is absent."""


def _label(value: Any, what: str, where: Where) -> str:
    """Return a label as text; a whole number has the same digits however it is written, and a word the same signs."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value == value // 1:
        value = int(value)
    if isinstance(value, int) or (isinstance(value, str) and value.strip()):
        written = unicodedata.normalize("NFC", str(value).strip())
        return written.partition(".")[0] if _WHOLE_WITH_POINT.fullmatch(written) else written
    raise DataError(
        f"{where()}: its {what} is {value!r}, and must be a name or a whole number; correct or remove the row."
    )


DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
"""A number as most of Europe writes it."""


def _score(row: Row, where: Where) -> float:
    value = row["score"]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        way = "write it with a point" if DECIMAL_COMMA.fullmatch(str(value).strip()) else "correct or remove the row"
        raise DataError(f"{where()}: its score is {value!r}, and must be a number; {way}.")
    return number


def _listed(value: Any, what: str, where: Where) -> Sequence[object]:
    """Return a list, also from a text of words with blanks between."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, Sequence):
        return value
    raise DataError(f"{where()}: its {what} are {value!r}, and must be a list, or words with blanks between.")


def _question(row: Row, where: Where) -> Question:
    """Return a question. An answer is a text, or, as in SQuAD, texts with their positions: the first is learned, all
    count as right. An empty list means that the context does not contain the answer."""
    answer: Any = row["answer"]
    if isinstance(answer, Sequence) and answer and isinstance(answer[0], Mapping):
        answer = {name: [one.get(name) for one in answer] for name in ("text", "answer_start")}
    nested = isinstance(answer, Mapping)
    answers = _each(answer.get("text") if nested else answer)
    starts = _each(answer.get("answer_start") if nested else row.get("answer_start"))
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
