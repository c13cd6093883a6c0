"""The runs of the question that a study was started with last: its folder may hold those of older questions too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headtohead.comparison.arms import counts
from headtohead.comparison.comparability import seed_of
from headtohead.errors import UsageError
from headtohead.files.safe_read import read_object
from headtohead.records.record import COUNTED, RunRecord

PLANNED_RUNS = "planned_runs.json"
"""The file in a study's folder that lists the runs of its plan as it was when the study was started last."""
_RUNS = "runs"


@dataclass(frozen=True)
class PlannedRuns:
    """The runs of a plan: those that were known when it was written down, and where more were to follow from how these
    end, what was started since."""

    registration: str = ""
    """The name of the question's file among the registrations."""
    ids: frozenset[str] = frozenset()
    since: str | None = ""
    """ISO 8601, in UTC; None where all runs were known."""

    def has(self, run_id: str, started: str | None) -> bool:
        """Return whether a run is of the plan."""
        return run_id in self.ids or (self.since is not None and (started is None or started >= self.since))


def read_planned_runs(folder: Path) -> PlannedRuns:
    """Return the runs of the plan; every run where none are written down."""
    with suppress(OSError, UsageError, KeyError, TypeError):
        written = read_object(folder / PLANNED_RUNS)
        since = None if written["since"] is None else str(written["since"])
        return PlannedRuns(str(written["registration"]), frozenset(map(str, written["runs"])), since)
    return PlannedRuns()


def study_folder(record: RunRecord) -> Path | None:
    """Return the study's folder, above runs/ID."""
    path = record.path
    return path.parent.parent if path is not None and path.parent.name == _RUNS and record.place.study else None


def without_older_questions(records: Sequence[RunRecord]) -> tuple[list[RunRecord], str | None]:
    """Return the runs without those of older questions, and a sentence on what was left out. Only where an arm has two
    outcomes of one seed is there anything to leave out: else all runs were asked for together."""
    folders = {id(record): study_folder(record) for record in records}
    outcomes = [record for record in records if counts(record) and record.status in COUNTED]
    times = Counter((folders[id(record)], record.arm, seed_of(record)) for record in outcomes)
    doubled = {folder for (folder, *_), number in times.items() if number > 1 and folder is not None}
    plans = {folder: read_planned_runs(folder) for folder in doubled}

    def is_older(record: RunRecord) -> bool:
        folder = folders[id(record)]
        return folder in plans and not plans[folder].has(record.id, record.timing.started)

    older = [record for record in records if is_older(record)]
    if len(older) in (0, len(records)):  # those of older questions may be compared by themselves
        return list(records), None
    studies = " and ".join(sorted({str(record.place.study) for record in older}))
    one = len(older) == 1
    sentence = (
        f"left out: {len(older)} run{'' if one else 's'} of older questions of {studies}, which was started with "
        f"another one since; give {'its path' if one else 'their paths'} alone to compare {'it' if one else 'them'}"
    )
    return [record for record in records if not is_older(record)], sentence
