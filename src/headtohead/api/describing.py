"""A look at data from Python, before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headtohead.api.result import Result, upgraded
from headtohead.api.spoken_errors import speaks_python
from headtohead.diagnostics.data_description import DataDescription, describe


class DescribedData(Result, DataDescription):
    """The description of what lies at a path, a row for each column."""

    @property
    def title(self) -> str:
        rows = ", ".join(f"{number:,} {split}" for split, number in self.num_rows.items())
        chance = (
            f", most frequent class {self.chance:.3f}" if self.chance is not None and self.task != "tagging" else ""
        )
        return f"{self.path}: {self.task}, {rows}{chance}"

    @property
    def sentences(self) -> Sequence[str]:
        return [*self.remarks, self.command]

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [vars(column) for column in self.columns]


@speaks_python
def describe_data(path: str | Path) -> DescribedData:
    """Say what a file or folder holds: `.task`, `.columns`, `.classes`, and `.overrides`, by which a run reads it."""
    return upgraded(DescribedData, describe(path))
