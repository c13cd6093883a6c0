"""The user's tables as data of any kind: files of rows with named columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from headtohead.data.data_source import SPLIT_NAMES, DataError, DataKind, DataSource, SplitName
from headtohead.data.row_formats.class_names import check_class_names
from headtohead.data.row_formats.labelled_text import ClassFormat, ScoreFormat
from headtohead.data.row_formats.language_rows import LanguageFormat, RowPacking
from headtohead.data.row_formats.questions import QuestionFormat
from headtohead.data.row_formats.tagged import TagFormat
from headtohead.data.row_formats.text_pairs import PairFormat
from headtohead.data.row_formats.text_source import BucketedRows, RowFormat
from headtohead.data.sources.columns import SampleColumns, kind_of, sample_of
from headtohead.data.sources.file_samples import FileSamples
from headtohead.data.sources.local_files import FileSplits
from headtohead.data.sources.missing_values import is_blank_document
from headtohead.data.splits.sample_splits import Keys
from headtohead.ranges import Length, Seed


@dataclass(frozen=True)
class Columnar:
    """Columns of a file by name, and the number of each row in it."""

    columns: Mapping[str, Sequence[object]]
    numbers: Sequence[int]


@dataclass(frozen=True)
class TableFormat(RowPacking):
    """Options for cutting rows of any kind: labelled ones have names of classes, those with questions a stride."""

    class_names: list[str] | None = None
    max_length: Length | None = None
    stride: Length | None = None


class TableFiles(FileSamples):
    """Subclasses read one file. The columns given determine the kind of data."""

    def __init__(
        self,
        *,
        files: FileSplits = FileSplits(),
        share_by: str | list[str] | None = None,
        columns: SampleColumns = SampleColumns(),
        form: TableFormat = TableFormat(),
        rows: BucketedRows = BucketedRows(),
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(files, rows, max_length=form.max_length, seed=seed, drop_shared=drop_shared)
        self.columns = columns.by_part()
        self.share_by = (share_by,) if isinstance(share_by, str) else tuple(share_by or ())
        self._shared: dict[tuple[str, int], Keys] = {}
        self.class_names = check_class_names(form.class_names)
        self.corpus = LanguageFormat(form.context_length, form.packing)
        self.asking = QuestionFormat(self.max_length, form.stride)
        self._options = form

    @abstractmethod
    def column_names(self, file: Path) -> Sequence[str]:
        """Return the column names of a file, reading as little of it as possible."""

    def otherwise(self, file: Path) -> str:
        """Return the end of an error message with other remedies where a file lacks the needed columns."""
        del file
        return ""

    @abstractmethod
    def columns_of(self, file: Path, names: Sequence[str]) -> Columnar:
        """Return these columns of a file."""

    def pieces_of(self, file: Path, names: Sequence[str]) -> Iterator[Columnar]:
        """Yield the same in pieces of rows where the format allows it."""
        yield self.columns_of(file, names)

    @cached_property
    def chosen(self) -> tuple[DataKind, dict[str, str]]:
        """Return the kind of data, and the column of each role."""
        file = self.files["train"][0]
        return kind_of(self.columns, self.column_names(file), file=str(file), otherwise=self.otherwise(file))

    @property
    def form(self) -> RowFormat[Any]:
        kind = self.chosen[0]
        if kind == "labelled_text":
            return ClassFormat(self.class_names, self.max_length)
        if kind == "scored_text":
            return ScoreFormat(self.max_length)
        if kind == "tagged_text":
            return TagFormat(self.class_names, self.max_length)
        if kind == "questions":
            return self.asking
        return PairFormat(self.max_length) if kind == "pairs_of_text" else self.corpus

    def ignored_fields(self) -> Mapping[str, object]:
        """Return what another kind of rows would read."""
        read = {*self.form.parameters(), *self.form.view_parameters()}
        unread = {
            option.name: value
            for option in fields(TableFormat)
            if option.name not in read and (value := getattr(self._options, option.name)) != option.default
        }
        unsorted = self.chosen[0] == "language" and not self.bucket_by_length
        return {**unread, "bucket_by_length": False} if unsorted else unread

    def longer(self, multiple: int) -> DataSource:
        if self.chosen[0] != "language":
            return super().longer(multiple)
        longer = copy(self)
        longer.corpus = self.corpus.longer(self.content.tables["test"], multiple)
        return longer

    def sample_parameters(self) -> Mapping[str, object]:
        shared = {"share_by": self.share_by} if self.share_by else {}
        return {**super().sample_parameters(), "columns": self.chosen[1], **shared}

    def read(self, file: Path) -> Iterator[tuple[Any, int]]:
        kind, parts = self.chosen
        kind_of(parts, self.column_names(file), file=str(file))
        shared = self._columns_to_share_by(file)
        self.begin_count(file)
        for table in self.pieces_of(file, list(dict.fromkeys([*parts.values(), *shared]))):
            for index, number in enumerate(table.numbers):
                row = {part: table.columns[name][index] for part, name in parts.items()}
                if kind == "language" and self.missing == "refuse" and is_blank_document(row):
                    continue
                if self.is_complete(row, file, number):
                    sample = sample_of(kind, row, partial(self.where, file, number))
                    if shared:
                        self._shared[str(file), number] = [_key(table.columns[name][index]) for name in shared]
                    yield sample, number

    def _columns_to_share_by(self, file: Path) -> Sequence[str]:
        """Return the columns that group samples; none for files that nothing is drawn from."""
        if not self.share_by or file not in self.files["train"] or all(self.files.get(name) for name in SPLIT_NAMES):
            return ()
        names = self.column_names(file)
        for name in self.share_by:
            if name not in names:
                raise DataError(
                    f"data.share_by={name} is not a column of {file}, which has {', '.join(names)}: choose from "
                    f"them, or "
                    f"null."
                )
        return self.share_by

    def shared_of(self, origin: tuple[str, int]) -> Keys:
        return self._shared.get(origin, ())

    def samples(self) -> Mapping[SplitName, Sequence[Any]]:
        result = super().samples()
        self._shared.clear()
        return result


def _key(value: Any) -> Hashable:
    """Return the group of a cell, None where it is empty: such rows have nothing in common. An integer is the same in a
    file that writes it with a point, as many do where another row of the column has none."""
    if value is None or value != value or value == [] or (isinstance(value, str) and not value.strip()):
        return None
    normalised = int(value) if isinstance(value, float) and value.is_integer() else value
    return normalised if isinstance(normalised, str) else repr(normalised)
