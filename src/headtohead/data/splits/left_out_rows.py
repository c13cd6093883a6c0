"""Counts of the rows that were left out because they lack a value, by file and by what they lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

LEFT_OUT = "left_out"
"""The name of these facts, in prepared content and in records."""


class LeftOutFacts(TypedDict, total=False):
    """The counts as JSON can hold them; empty where no row was left out."""

    rows: int
    """The rows that were left out."""
    of: int
    """The rows that were read, over all splits."""
    without: dict[str, int]
    """The rows that lack a part, by part; a row may lack several."""
    files: dict[str, int]
    """The rows left out, by the name of their file."""


@dataclass
class LeftOutRows:
    """Counts of the rows that were read and of those left out, by file, so that a file read again counts once."""

    read: Counter[str] = field(default_factory=Counter)
    """The rows of each file."""
    without: dict[str, Counter[str]] = field(default_factory=dict)
    """The rows of each file that lack a part, by part."""
    left_out: Counter[str] = field(default_factory=Counter)
    """The rows of each file that were left out, which may lack several parts."""

    def open(self, file: Path) -> None:
        """Forget what was counted of a file, which is read now."""
        self.read[str(file)] = self.left_out[str(file)] = 0
        self.without[str(file)] = Counter()

    def count(self, file: Path, missing: Sequence[str] = ()) -> None:
        """Count a row of a file, which is left out where parts are missing."""
        self.read[str(file)] += 1
        if missing:
            self.left_out[str(file)] += 1
            self.without[str(file)].update(missing)

    def facts(self) -> LeftOutFacts:
        """Return the counts of all files."""
        if not self.left_out.total():
            return {}
        without: Counter[str] = sum(self.without.values(), Counter())
        files: Counter[str] = Counter()
        for file, times in self.left_out.items():
            files[Path(file).name] += times
        return {
            "rows": self.left_out.total(),
            "of": self.read.total(),
            "without": dict(without.most_common()),
            "files": dict(+files),
        }


def added_counts(facts: Iterable[LeftOutFacts]) -> LeftOutFacts:
    """Return the counts of several sources as those of one; empty where none left out a row."""
    counted = [own for own in facts if own]
    if not counted:
        return {}
    without, files = Counter[str](), Counter[str]()
    for own in counted:
        without.update(own["without"])
        files.update(own["files"])
    rows, of = sum(own["rows"] for own in counted), sum(own["of"] for own in counted)
    return {"rows": rows, "of": of, "without": dict(without.most_common()), "files": dict(files)}
