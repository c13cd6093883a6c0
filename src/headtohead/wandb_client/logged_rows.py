"""Convert rows to W&B's form: their numbers, pictures or tables, and the axes of their charts; and what lies in a run's
folder: what W&B calls each table and picture, and at which step."""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headtohead.errors import UsageError
from headtohead.files.safe_read import DamagedFile
from headtohead.interpretability.colour_table import values_to_colours
from headtohead.metrics import metric_named
from headtohead.metrics.metric import Cell, MetricTable
from headtohead.records.metrics_file import TEST
from headtohead.records.record import Progress
from headtohead.records.run_folder import RunFolder

AXIS = "trainer/global_step"
"""The axis that every chart is drawn against; W&B's own _step numbers rows."""
_AXES = (AXIS, "progress/epoch", "progress/tokens", "progress/flops", "progress/seconds")


def define_axes(run: Any) -> None:
    for axis in _AXES:
        run.define_metric(axis)
    run.define_metric("*", step_metric=AXIS)


def axes_of(progress: Progress) -> dict[str, float]:
    p = progress
    return dict(zip(_AXES, (p.step, p.epoch, p.tokens, p.flops, p.seconds), strict=True))


def prepared(run: Any, number: int, values: Mapping[str, object], medium: Medium) -> dict[str, Any]:
    """Return the values as W&B's client takes them; the files of pictures and tables are written here."""
    if medium == "numbers":
        return dict(values)
    _remake_media_folder()
    made = {name: _MADE[medium](value) for name, value in values.items()}
    for name, one in made.items():
        # Bound, a table is a file of the run; else `log` makes an artifact, and training waits for the server's answer
        one.bind_to_run(run, name, number)
    return made


def send(run: Any, number: int, progress: Progress, made: Mapping[str, object]) -> None:
    """Send one whole row of prepared values under W&B's own step."""
    run.log({**made, **axes_of(progress)}, step=number, commit=True)


def _remake_media_folder() -> None:
    """W&B's client makes its temporary folder once; whoever cleans up temporary files may have removed it."""
    from wandb.sdk.data_types._private import MEDIA_TMP

    Path(MEDIA_TMP.name).mkdir(parents=True, exist_ok=True)


def _picture(picture: Any) -> Any:
    import wandb

    return wandb.Image(to_picture(picture))


def _table(table: MetricTable) -> Any:
    import wandb

    return wandb.Table(columns=list(table.columns), data=[list(row) for row in table.rows])


_MADE: Mapping[Medium, Callable[[Any], Any]] = {"pictures": _picture, "tables": _table}


def to_picture(array: Any) -> np.ndarray:
    """Return an 8-bit picture [H, W, 3] of a map [H, W], or of colours [H, W, 3 or 4].

    Maps are spread over the colours from their smallest to their largest value (a map of one value shows it within
    0 to 1); what is not a number is grey. Colours as floats must lie within 0 and 1.
    """
    values = np.asarray(array)
    if values.ndim == 2:
        return values_to_colours(values.astype(np.float64))
    if values.ndim != 3 or values.shape[2] not in (3, 4):
        raise UsageError(f"a picture has the shape {values.shape}; give [height, width] or [height, width, 3 or 4]")
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind != "f" or values.min() < 0 or values.max() > 1:
        raise UsageError(f"a picture of {values.dtype} colours must be uint8, or floats within 0 and 1")
    result: np.ndarray = np.rint(values * 255).astype(np.uint8)
    return result


_STAGES = ("train/", "validation/")


class Extremes:
    """min/validation/loss or max/validation/accuracy, as the metric says, and last/...: scalars, since W&B's own
    summaries by `define_metric` turn a result into a mapping, which neither sweeps nor tables then find by its name."""

    def __init__(self) -> None:
        self._held: dict[str, float] = {}

    def take(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            metric = metric_named(name) if name.startswith(_STAGES) else None
            if metric is None or metric.direction is None:
                continue
            self._held[f"last/{name}"] = value
            best = f"{metric.direction}/{name}"
            if math.isfinite(value):
                held = self._held.get(best, value)
                self._held[best] = value if metric.is_better(value, held) else held

    def as_summary(self) -> dict[str, float]:
        """Return the values in the form of W&B's summary."""
        return dict(self._held)


Medium = Literal["numbers", "pictures", "tables"]
_PER_STEP, _PER_ROUND = 100, 16
_SECTION_ORDER: dict[tuple[Medium, str], int] = {
    ("numbers", "train"): 0,
    ("numbers", "attention"): 1,
    ("pictures", "attention"): 2,
    ("numbers", "validation"): 3,
    ("tables", "validation"): 4,
    ("pictures", "validation"): 5,
    ("tables", "test"): 6,
    ("pictures", "test"): 7,
    ("numbers", "test"): 8,
    ("numbers", "longer tests"): 9,
}
"""The order in which media are logged within a step."""


class RowNumbers:
    """Gives rows their numbers; a row that the server holds, or that was logged already, gets none."""

    def __init__(self, first_free: int = 0) -> None:
        self._held, self._last = first_free - 1, -1
        self._step = -1
        self._reported: set[str] = set()

    def take(self, step: int, names: Collection[str], position: int) -> int | None:
        """Call it with all names of a row, in the order in which a run tells them."""
        if step != self._step:
            self._step, self._reported = step, set()
        if self._reported.issuperset(names):
            return None
        self._reported.update(names)
        number = usual_number(step, position)
        while number <= self._last:  # maps that are drawn at the end come after the validation of their step
            number += _PER_ROUND
        self._last = number
        return None if number <= self._held else number


def usual_number(step: int, position: int) -> int:
    """Return the number of a row that comes in the usual order."""
    return step * _PER_STEP + position


def in_rows(values: Mapping[str, object], medium: Medium = "numbers") -> dict[int, dict[str, Any]]:
    """Group values that are logged together into rows by their index within the step, however they were gathered."""
    rows: dict[int, dict[str, Any]] = {}
    for name, value in values.items():
        rows.setdefault(_index_in_step(name, medium), {})[name] = value
    return rows


def _index_in_step(name: str, medium: Medium) -> int:
    section = name.partition("/")[0]
    if section.startswith("attention"):
        section = "attention"
    elif section.startswith("test") and section != "test":
        section = "longer tests"
    return _SECTION_ORDER.get((medium, section), 0 if medium == "numbers" else 7)


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
