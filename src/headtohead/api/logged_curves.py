"""The logged metrics of a run as frames, read without torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.errors import UsageError
from headtohead.records.metrics_file import Curve
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder

if TYPE_CHECKING:
    from pandas import DataFrame


def curve_frame(record: RunRecord, name: str) -> DataFrame:
    """Return a metric of a run's log as a frame; raise UsageError for one that was not logged."""
    from pandas import DataFrame

    curves = RunFolder.open(folder_of(record)).metrics([name])
    if name not in curves:
        raise UsageError(
            f"{name} was not logged by {record.name or record.id}: choose among {', '.join(logged(record))}"
        )
    return DataFrame(vars(curves[name]))


def curves_frame(runs: Iterable[tuple[Mapping[str, object], RunRecord]], name: str) -> DataFrame:
    """Return a metric of several runs as one frame, whose first columns are those by which each run is named; a run
    that has not logged it is left out. Raise UsageError where none has."""
    from pandas import DataFrame, concat

    of_runs = list(runs)
    curves = [(names, RunFolder.open(folder_of(record)).metrics([name]).get(name)) for names, record in of_runs]
    frames = [DataFrame({**names, **vars(curve)}) for names, curve in curves if curve is not None]
    if not frames:
        others = sorted({each for _, record in of_runs for each in logged(record)})
        known = f"choose among {', '.join(others)}" if others else "nothing was logged yet"
        raise UsageError(f"{name} was logged by none of the runs: {known}")
    return concat(frames, ignore_index=True)


def logged(record: RunRecord) -> Mapping[str, Curve]:
    """Return every curve of a run's log, by name."""
    return RunFolder.open(folder_of(record)).metrics()


def folder_of(record: RunRecord) -> Path:
    """Return the folder of a run; raise UsageError for a record that has none here."""
    if record.path is None:
        raise UsageError(f"run {record.id} has no folder here, so that there is no log and no model to open")
    return record.path
