"""A description of a file or folder: the data, and the overrides by which a run reads them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from headtohead.config.compose.composition import USUAL_TASKS, compose, model_for
from headtohead.config.compose.overrides import key_of, value_in_override
from headtohead.config.schema.key_checks import check
from headtohead.data.data_source import DataKind
from headtohead.data.row_formats.language_rows import RowPacking
from headtohead.data.sources.local_files import HeldOutShares
from headtohead.diagnostics.column_guess import ColumnFacts
from headtohead.errors import UsageError

_LETTERS_OF_A_TOKEN = 12
"""More than a token of any tokenizer has on average."""
_SURELY = 0.6
"""The share of its expected size that a drawn split has at least."""
_SHORTEST_CONTEXT = 8
_SPECIAL_IN_QUOTES = set('"$`\\!')


@dataclass(frozen=True)
class ReadingOptions:
    """Reading options are fields of data that decide how a file is read, before anything in it is known."""

    encoding: str | None = None
    """The encoding of the text, by its name in Python: latin-1, utf-16; None means utf-8."""
    delimiter: str | None = None
    """The character between the fields of a csv file; None means the one that its lines have in common."""
    quoted: bool | None = None
    """Whether fields of a csv file may be quoted; None means wherever the delimiter is not a tab."""
    column_names: Sequence[str] | None = None
    """The names of a csv file's columns; None means the first line, where that names them."""

    def named(self) -> dict[str, object]:
        """Return the options that were chosen."""
        chosen = {name: value for name, value in vars(self).items() if value is not None}
        return {name: list(value) if name == "column_names" else value for name, value in chosen.items()}


@dataclass(frozen=True)
class DataDescription:
    """A description says what lies at a path, and how it is trained on."""

    path: str
    """The file or folder that was read."""
    choice: str
    """The choice of the group data: csv, text, image_folder ..."""
    kind: DataKind
    """The kind of rows: what is in one, and what is to be predicted."""
    num_rows: Mapping[str, int]
    """The number of rows by split, where files have one; otherwise all are in train."""
    overrides: tuple[str, ...]
    """The overrides by which a run reads it: the data, their columns, the task and a model."""
    columns: tuple[ColumnFacts, ...] = ()
    """The facts of each column of a table."""
    classes: Mapping[str, int] = field(default_factory=dict)
    """Rows of each class or tag, the most frequent first."""
    remarks: tuple[str, ...] = ()
    """The remarks to be read before training on it."""

    @property
    def task(self) -> str:
        """Return the task of the command that trains on it."""
        return next(word.partition("=")[2] for word in self.overrides if word.startswith("task="))

    @property
    def chance(self) -> float | None:
        """Return the share of the most frequent class, which a guess reaches."""
        return max(self.classes.values()) / sum(self.classes.values()) if self.classes else None

    @property
    def command(self) -> str:
        """Return the command that trains on it."""
        return f"h2h train {' '.join(map(_typed, self.overrides))}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and lists, for JSON."""
        return {**asdict(self), "task": self.task, "chance": self.chance, "command": self.command}


def _typed(word: str) -> str:
    """Return a word as a shell reads it; quotes inside it stay as they are where they can."""
    quoted = f'"{word}"'
    return quoted if "'" in word and not set(word) & _SPECIAL_IN_QUOTES else shlex.quote(word)


def reads_by(override: str) -> bool:
    """Return whether an override is one of the reading options."""
    group, _, name = key_of(override).partition(".")
    return group == "data" and name in {option.name for option in fields(ReadingOptions)}


def reading_options(overrides: Sequence[str]) -> ReadingOptions:
    """Return the reading options that overrides choose, with the types of their fields; refuse any other override."""
    if other := next((word for word in overrides if not reads_by(word)), None):
        known = ", ".join(f"data.{option.name}" for option in fields(ReadingOptions))
        raise UsageError(f"{other} does not say how a file is read: give {known}, and the rest to h2h train")
    chosen = check(compose("train", ["data=csv", *overrides]))["data"] if overrides else {}
    named = (key_of(word).partition(".")[2] for word in overrides)
    return ReadingOptions(**{name: chosen[name] for name in named})


def fitting_context(texts: Sequence[str], shares: HeldOutShares) -> dict[str, object]:
    """Return the context length to choose where the usual one is longer than the texts of a drawn split; nothing where
    it fits. A tokenizer makes a token or more of each word, and one of a few letters of a text without blanks."""
    usual = RowPacking.context_length
    tokens = sum(max(len(text.split()), len(text) // _LETTERS_OF_A_TOKEN) for text in texts)
    room = int(min(shares.shares().values()) * tokens * _SURELY)
    if room > usual:
        return {}
    return {"context_length": max(_SHORTEST_CONTEXT, 2 ** int(math.log2(max(room - 1, 1))))}


def reading_overrides(
    choice: str,
    path: Path,
    kind: DataKind,
    own: Mapping[str, object] | None = None,
    *,
    task: str | None = None,
) -> tuple[str, ...]:
    """Return the overrides by which a run reads the path, with these fields of data, whatever their letters."""
    task = task or USUAL_TASKS[kind]
    fields = {"path": str(path), **(own or {})}
    values = (f"data.{name}={value_in_override(value)}" for name, value in fields.items())
    return (f"data={choice}", *values, f"task={task}", f"model={model_for(task)}")
