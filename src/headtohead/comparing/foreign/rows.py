"""The rows of a CSV file, each with the line it stands on; cells as numbers, or a refusal that names the row."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headtohead.comparing.foreign.columns import TableError
from headtohead.files.reading import DamagedFile, read_text

_MISSING = frozenset(("", "nan", "none", "null", "na", "n/a", "-", "inf", "+inf", "-inf", "infinity", "-infinity"))
_OVERFLOWS = 1e300
"""Sums of numbers like it are no numbers; no run that goes well has them."""
_SEPARATORS = ",;\t"


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    line: int
    """In the file, from 1."""
    cells: Mapping[str, str]
    where: str
    """The file, for errors."""

    def refused(self, why: str) -> TableError:
        return TableError(f"{self.where}, row {self.line}: {why}")

    def text(self, column: str) -> str:
        """On one line, without what would steer a terminal."""
        value = "".join(letter for letter in " ".join(self.cells[column].split()) if letter.isprintable())
        if not value:
            raise self.refused(f"{column} is empty")
        return value

    def integer(self, column: str) -> int:
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not value.is_integer():
            raise self.refused(f"{column} is {text}; expected a whole number, such as 0")
        return int(value)

    def number(self, column: str) -> float | None:
        """None where the cell is empty, or says that there is no finite number."""
        text = self.cells[column].strip()
        if text.lower() in _MISSING:
            return None
        try:
            value = float(text)
        except ValueError:
            comma = ": write decimals with a point" if "," in text else ""
            raise self.refused(
                f"{column} is {text}; expected a number, or nothing for a run that diverged{comma}"
            ) from None
        return value if abs(value) < _OVERFLOWS else None

    def is_empty(self, column: str) -> bool:
        return not self.cells[column].strip()


def read_rows(path: Path) -> tuple[list[str], list[Row]]:
    """Header and rows; separated by commas, semicolons or tabs."""
    try:
        text = read_text(path)
    except (OSError, DamagedFile) as error:
        raise TableError(f"{path} cannot be read as a CSV file in UTF-8: {error}") from None
    return rows_of(text, str(path))


def rows_of(text: str, where: str) -> tuple[list[str], list[Row]]:
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = [name.strip() for name in next(reader, [])]
    _check_header(header, where)
    rows = []
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise TableError(f"{where}, row {reader.line_num}: {len(cells)} cells, and the header has {len(header)}")
        rows.append(Row(reader.line_num, dict(zip(header, cells, strict=True)), where))
    if not rows:
        raise TableError(f"{where} holds no rows below its header")
    return header, rows


def _check_header(header: list[str], where: str) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if not any(header):
        raise TableError(f"{where} is empty: its first row names the columns")
    if twice:
        raise TableError(f"{where} has two columns named {twice[0] or '(nothing)'}: rename one")
