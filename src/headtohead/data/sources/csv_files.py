"""Comma- or tab-separated files (RFC 4180, https://www.rfc-editor.org/rfc/rfc4180)."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from headtohead.data.data_source import DataError
from headtohead.data.row_formats.text_source import BucketedRows
from headtohead.data.sources.columns import SampleColumns
from headtohead.data.sources.json_files import JsonFiles
from headtohead.data.sources.local_files import FileSplits, decoded, suffix_of
from headtohead.data.sources.table_files import Columnar, TableFiles, TableFormat
from headtohead.field_group import FieldGroup
from headtohead.ranges import Seed

MOST_COLUMNS = 4_096
"""More than any table of texts has; a wrong delimiter makes as many."""
_DELIMITERS = (",", "\t", ";", "|")
_TAB = "\\t"
"""A tab as it is typed, since a terminal completes words at a true one."""
_ROWS_TO_COMPARE = 100


@dataclass(frozen=True)
class CsvDialect(FieldGroup):
    """Options for splitting the lines of a file into fields."""

    delimiter: str | None = None
    """One character, or \\t for a tab; None: by the file's name."""
    quoted: bool | None = None
    """Whether fields may be quoted; None means wherever the delimiter is not a tab."""
    column_names: list[str] | None = None
    """The names of the columns; None means the first line."""
    encoding: str = "utf-8"
    """The encoding of the files, by its name in Python: utf-8, latin-1, utf-16."""

    def checked_delimiter(self) -> str | None:
        """Return the delimiter; raise DataError where it is more than a character."""
        if self.delimiter == _TAB:
            return "\t"
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise DataError(
                f"data.delimiter={self.delimiter!r} must be one character, such as ';'; null: by the file's name."
            )
        return self.delimiter


class CsvFiles(TableFiles):
    """The first line names the columns, unless `column_names` does. Lines and quotes follow RFC 4180; in files of tabs
    a quote is a character like any other, as it is in most of them."""

    name: ClassVar[str] = "csv"
    suffixes = (".csv", ".tsv")

    def __init__(
        self,
        *,
        files: FileSplits = FileSplits(),
        share_by: str | list[str] | None = None,
        dialect: CsvDialect = CsvDialect(),
        columns: SampleColumns = SampleColumns(),
        form: TableFormat = TableFormat(),
        rows: BucketedRows = BucketedRows(),
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(
            files=files, share_by=share_by, columns=columns, form=form, rows=rows, seed=seed, drop_shared=drop_shared
        )
        self.delimiter, self.quoted = dialect.checked_delimiter(), dialect.quoted
        self.header, self.encoding = dialect.column_names, dialect.encoding

    def sample_parameters(self) -> Mapping[str, object]:
        own = {name: getattr(self, name) for name in ("delimiter", "quoted", "header", "encoding")}
        return {**super().sample_parameters(), **own}

    def column_names(self, file: Path) -> Sequence[str]:
        return self._header(file, self._lines(file))

    def columns_of(self, file: Path, names: Sequence[str]) -> Columnar:
        lines = self._lines(file)
        header = self._header(file, lines) if self.header is None else self.header
        indices = {name: header.index(name) for name in names}
        columns: dict[str, list[str]] = {name: [] for name in names}
        numbers: list[int] = []
        for number, fields in lines:
            if len(fields) != len(header):
                raise DataError(
                    f"{file}, line {number} has {len(fields)} fields, and the columns are {len(header)} "
                    f"({', '.join(header)}): correct the line, or data.delimiter, data.quoted or data.column_names."
                )
            numbers.append(number)
            for name, index in indices.items():
                columns[name].append(fields[index])
        return Columnar(columns, numbers)

    def likely_delimiter(self, file: Path) -> str | None:
        """Return the delimiter, as it is typed, that cuts the first rows into equally many fields, where that of the
        file's name does not; None where it does, where one was chosen, and where none does."""
        usual = self._usual_delimiter(file)
        if self.delimiter is not None or self._columns_by(file, usual) > 1:
            return None
        likely = max(_DELIMITERS, key=lambda delimiter: self._columns_by(file, delimiter))
        return (_TAB if likely == "\t" else likely) if self._columns_by(file, likely) > 1 else None

    def _columns_by(self, file: Path, delimiter: str) -> int:
        """Return the number of fields that each of the first rows has by this delimiter; 0 where it differs."""
        try:
            rows = [fields for _, fields in islice(self._lines(file, delimiter), _ROWS_TO_COMPARE)]
        except DataError:
            return 0
        widths = set(map(len, rows))
        return widths.pop() if len(widths) == 1 else 0

    def otherwise(self, file: Path) -> str:
        if suffix_of(file) in JsonFiles.suffixes:
            return "; or read it by data=json"
        if (likely := self.likely_delimiter(file)) is not None:
            return f"; or, where {likely!r} stands between its fields, data.delimiter='{likely}' in quotes"
        if self.header is not None:
            return ""
        return "; or, where its first line is a row already, name its columns, data.column_names=[text,label]"

    def _header(self, file: Path, lines: Iterator[tuple[int, list[str]]]) -> Sequence[str]:
        if self.header is not None:
            return self.header
        first = next(lines, None)
        if first is None:
            raise DataError(f"{file} is empty: it must begin with a line that names its columns.")
        names = [name.strip() for name in first[1]]
        if len(names) > MOST_COLUMNS:
            raise DataError(
                f"{file} has {len(names):,} columns, and {MOST_COLUMNS:,} are the most: remove those that no field "
                "of data names, or correct data.delimiter."
            )
        if twice := next((name for name, times in Counter(names).items() if times > 1), None):
            raise DataError(
                f"{file} has two columns {twice!r}: give each its own name in the first line, or, where that is a row "
                "already, name them by data.column_names."
            )
        return names

    def _usual_delimiter(self, file: Path) -> str:
        return "\t" if suffix_of(file) == ".tsv" else ","

    def _lines(self, file: Path, delimiter: str | None = None) -> Iterator[tuple[int, list[str]]]:
        """Yield where each line of the table begins in the file, and its fields; blank lines are skipped."""
        text = decoded(file, self.encoding)
        delimiter = delimiter or self.delimiter or self._usual_delimiter(file)
        quoted = delimiter != "\t" if self.quoted is None else self.quoted
        csv.field_size_limit(sys.maxsize)
        dialect: dict[str, Any] = {"quoting": csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE, "strict": True}
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, **dialect)
        begins = 1
        try:
            for fields in reader:
                if fields:
                    yield begins, fields
                begins = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{file}, line {begins} is not a line of fields ({error}): correct it, or data.delimiter, or give "
                f"data.quoted=false where quotes are letters."
            ) from error
