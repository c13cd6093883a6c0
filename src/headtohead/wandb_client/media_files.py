"""Tables and pictures of a run as they lie in its folder: what W&B calls each, and at which step it was made."""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.files.safe_read import DamagedFile
from headtohead.metrics.metric import Cell, MetricTable
from headtohead.records.metrics_file import TEST
from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client.logged_rows import Medium

MAPS, TABLES = "attention", "tables"
"""The folders of a run that hold them."""
_STEP = re.compile(r"step_(\d+)")
_PICTURE_OF_A_TABLE = "_picture"


@dataclass(frozen=True)
class MediaFile:
    """One table or picture."""

    name: str
    """The name as W&B has it, `attention/stack.0.mixer` or `validation/samples`."""
    step: int
    medium: Medium
    path: Path

    @property
    def is_of_test(self) -> bool:
        return self.name.startswith(f"{TEST}/")

    def read(self) -> Any:
        """Return what a tracker takes: a Table, or colours [H, W, 3]."""
        if self.medium == "tables":
            return _read_table(self.path)
        import numpy as np
        from PIL import Image

        with Image.open(self.path) as picture:
            return np.asarray(picture.convert("RGB"))


def step_folder(step: int) -> str:
    """Return the name of the folder for what was made at a step."""
    return f"step_{step:06d}"


def picture_name(table: str) -> str:
    """Return W&B's name of the picture that is drawn of a table."""
    return f"{table}{_PICTURE_OF_A_TABLE}"


def media_of(run: RunFolder, last_step: int) -> Iterator[MediaFile]:
    """Yield all of them in order of their steps; the test has that of the end."""
    files = [*_maps(run.path / MAPS), *_of_validations(run.path / TABLES), *_of_test(run.path / TABLES, last_step)]
    yield from sorted(files, key=lambda one: (one.step, one.name))


def _maps(folder: Path) -> Iterator[MediaFile]:
    for step, folder_of_step in _steps(folder):
        for path in folder_of_step.glob("*.png"):
            yield MediaFile(f"{MAPS}/{path.stem}", step, "pictures", path)


def _of_validations(folder: Path) -> Iterator[MediaFile]:
    for step, folder_of_step in _steps(folder):
        yield from _tables(folder_of_step, "validation", step)


def _of_test(folder: Path, step: int) -> Iterator[MediaFile]:
    yield from _tables(folder / TEST, TEST, step)


def _tables(folder: Path, stage: str, step: int) -> Iterator[MediaFile]:
    for path in folder.glob("*.csv"):
        yield MediaFile(f"{stage}/{path.stem}", step, "tables", path)
    for path in folder.glob("*.png"):
        yield MediaFile(picture_name(f"{stage}/{path.stem}"), step, "pictures", path)


def _steps(folder: Path) -> Iterator[tuple[int, Path]]:
    for step_folder in folder.glob("step_*"):
        if match := _STEP.fullmatch(step_folder.name):
            yield int(match[1]), step_folder


def _read_table(path: Path) -> MetricTable:
    """A column is one of numbers where every cell reads as one."""
    csv.field_size_limit(sys.maxsize)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            columns, *rows = csv.reader(file)
    except csv.Error as error:
        raise DamagedFile(path, f"is not a table ({error})") from None
    by_column = [_typed(cells) for cells in zip(*rows, strict=True)]
    return MetricTable(tuple(columns), tuple(zip(*by_column, strict=True)))


def _typed(cells: Sequence[str]) -> Sequence[Cell]:
    try:
        return [int(cell) for cell in cells]
    except ValueError:
        pass
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        return cells
    return numbers if all(map(math.isfinite, numbers)) else cells
