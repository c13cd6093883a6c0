"""rows/STAGE.npz of a run: sums of every row of a test, and the metrics that are ratios of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from headtohead.files.leases import checked_write

FOLDER = "rows"
_RATIOS = "metrics"
_ROW = "row"


@dataclass(frozen=True)
class RowFile:
    """One test of one run."""

    columns: Mapping[str, np.ndarray]
    ratios: Mapping[str, tuple[str, str]]
    """By metric the columns whose sums are above and below the line."""

    @property
    def rows(self) -> np.ndarray:
        """Which row of the split each is."""
        return self.columns[_ROW]

    def of(self, metric: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Return what each row adds above and below the line; None for a metric that is no such ratio."""
        names = self.ratios.get(metric)
        return None if names is None else (self.columns[names[0]], self.columns[names[1]])


def write_rows(
    folder: Path, stage: str, columns: Mapping[str, np.ndarray], ratios: Mapping[str, tuple[str, str]]
) -> None:
    """Write the file as a whole, in as few bytes as its numbers need; no file where there are no rows."""
    known = {metric: names for metric, names in ratios.items() if set(names) <= columns.keys()}
    if not columns or not known:
        return
    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    told = np.array([f"{metric}={above}/{below}" for metric, (above, below) in known.items()])
    handle, temporary = tempfile.mkstemp(prefix=f".{stage}.", dir=place)
    try:
        with os.fdopen(handle, "wb") as file:
            arrays = {name: _small(values) for name, values in columns.items()}
            np.savez_compressed(file, allow_pickle=False, **{_RATIOS: told}, **arrays)
        with checked_write(folder):
            Path(temporary).replace(_file(folder, stage))
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_rows(folder: Path, stage: str) -> RowFile | None:
    """Return the rows of a test; None where the run kept none, or the file is no such file."""
    file = _file(folder, stage)
    if not file.is_file():
        return None
    try:
        with np.load(file, allow_pickle=False) as found:
            columns = {name: found[name] for name in found.files}
            told = [str(entry) for entry in columns.pop(_RATIOS)]
    except (OSError, ValueError, KeyError, BadZipFile):
        return None
    pairs = {metric: ratio.partition("/") for metric, _, ratio in (entry.partition("=") for entry in told)}
    return RowFile(columns, {metric: (above, below) for metric, (above, _, below) in pairs.items()})


def _file(folder: Path, stage: str) -> Path:
    return folder / FOLDER / f"{stage}.npz"


def _small(values: np.ndarray) -> np.ndarray:
    """Whole numbers below 256 as bytes, larger ones as 32 bits."""
    if values.dtype.kind in "iu" or np.array_equal(values, np.round(values)):
        return values.astype(np.uint8 if values.min() >= 0 and values.max() < 256 else np.int32)
    return values.astype(np.float32)
