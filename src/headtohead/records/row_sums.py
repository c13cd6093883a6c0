"""rows/STAGE.npz of a run: sums of every row of a test, and the metrics that are ratios of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headtohead.files.atomic_write import replace_archive
from headtohead.files.safe_read import DamagedFile, open_archive

FOLDER = "rows"
_RATIOS = "metrics"
_ROW = "row"


@dataclass(frozen=True)
class RowFile:
    """One test of one run."""

    columns: Mapping[str, np.ndarray]
    ratios: Mapping[str, tuple[str, str]]
    """The columns, by metric, whose sums are above and below the line."""

    @property
    def rows(self) -> np.ndarray:
        """Return the indices in the split of the rows."""
        return self.columns[_ROW]

    def of(self, metric: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Return what each row adds above and below the line; None for a metric that is not such a ratio."""
        names = self.ratios.get(metric)
        return None if names is None else (self.columns[names[0]], self.columns[names[1]])


def write_rows(
    folder: Path, stage: str, columns: Mapping[str, np.ndarray], ratios: Mapping[str, tuple[str, str]]
) -> None:
    """Write the file as a whole, in as few bytes as its numbers need; no file where there are no rows."""
    known = {metric: names for metric, names in ratios.items() if set(names) <= columns.keys()}
    if not columns or not known:
        return
    folder_of_rows = folder / FOLDER
    folder_of_rows.mkdir(exist_ok=True)
    ratios_text = np.array([f"{metric}={above}/{below}" for metric, (above, below) in known.items()])
    arrays = {name: _small(values) for name, values in columns.items()}
    replace_archive(_file(folder, stage), {_RATIOS: ratios_text, **arrays})


def read_rows(folder: Path, stage: str, metric: str | None = None) -> RowFile | None:
    """Return the rows of a test, or only what one metric needs of them; None where the run saved none or the file
    holds none."""
    file = _file(folder, stage)
    if not file.is_file():
        return None
    try:
        with open_archive(file) as archive:
            sentences = (str(entry).partition("=") for entry in archive[_RATIOS])
            ratios = {name: (ratio.partition("/")[0], ratio.partition("/")[2]) for name, _, ratio in sentences}
            needed = archive.files if metric is None else [_ROW, *ratios.get(metric, ())]
            columns = {name: archive[name] for name in needed if name != _RATIOS}
    except (OSError, DamagedFile):
        return None
    return RowFile(columns, ratios)


def _file(folder: Path, stage: str) -> Path:
    return folder / FOLDER / f"{stage}.npz"


def _small(values: np.ndarray) -> np.ndarray:
    """Whole numbers below 256 as bytes, larger ones as 32 bits."""
    if values.dtype.kind in "iu" or np.array_equal(values, np.round(values)):
        return values.astype(np.uint8 if values.min() >= 0 and values.max() < 256 else np.int32)
    return values.astype(np.float32)
