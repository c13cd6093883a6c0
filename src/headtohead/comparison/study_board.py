"""The progress of a study: a cell for each arm and seed, and about how long the rest takes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from headtohead.comparison.planned_runs import read_planned_runs
from headtohead.errors import UsageError
from headtohead.files.safe_read import read_object
from headtohead.records.index.run_index import RunIndex
from headtohead.records.record import COUNTED, ENDED, Status
from headtohead.records.run_summary import RunSummary

MISSING = "missing"
"""The status of a cell whose run has not been started."""
NOT_STARTED = "not started"
"""The name of their number."""
NOT_NEEDED = "not needed"
"""The status of a cell whose run will not be started: its arm's contrasts were over after fewer seeds."""
INTERRUPTED: tuple[Status, ...] = ("interrupted", "out_of_disk")
"""The statuses of runs that the study resumes by itself."""
_OPEN = (MISSING, "running", *INTERRUPTED)


@dataclass(frozen=True)
class BoardCell:
    """One run of a study, or the place of one that has not been started."""

    status: str
    share: float = 0.0
    """The share of its steps that are done, from 0 to 1."""
    path: str = ""
    seconds_left: float | None = None


@dataclass(frozen=True)
class StudyBoard:
    """The runs of a study that verdicts rest on, by arm and seed."""

    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    cells: Mapping[tuple[str, int], BoardCell]
    trials: Mapping[str, int]
    """The number of runs of tunings, foundations and parts of the budget, by status."""

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of cells that are done, running, interrupted, failed and missing."""
        counts = Counter(cell.status for cell in self.cells.values() if cell.status != NOT_NEEDED)
        done = sum(counts[status] for status in COUNTED)
        failed = sum(number for status, number in counts.items() if status not in (*COUNTED, *_OPEN))
        interrupted = sum(counts[status] for status in INTERRUPTED)
        known = {"done": done, "running": counts["running"], "interrupted": interrupted, "failed": failed}
        return {**known, NOT_STARTED: counts[MISSING]}

    @property
    def is_done(self) -> bool:
        """Return whether no run is left."""
        return not any(cell.status in _OPEN for cell in self.cells.values())

    @property
    def num_runs(self) -> int:
        """Return the number of runs that there are or may be."""
        return sum(self.counts.values())

    @property
    def seconds_left(self) -> float | None:
        """Return about how long the other runs take, as many at once as now; None where nothing is known."""
        open_cells = [cell for cell in self.cells.values() if cell.status in _OPEN]
        if not open_cells or any(cell.seconds_left is None for cell in open_cells):
            return None
        rest = [cell.seconds_left or 0.0 for cell in open_cells]
        return max(sum(rest) / max(1, self.counts["running"]), *rest)


def read_board(folder: Path) -> StudyBoard:
    """Return the board of a study's folder."""
    index = RunIndex()
    try:
        return board_of(folder, index.summaries_of(list(index.look(folder))))
    finally:
        index.close()


def board_of(folder: Path, runs: Iterable[RunSummary]) -> StudyBoard:
    """Return the board of those runs that are of the study's plan, and of what it has registered."""
    arms, seeds = registered_cells(folder)
    planned = read_planned_runs(folder)
    own: dict[tuple[str, int], RunSummary] = {}
    others: Counter[str] = Counter()
    for run in runs:
        if run.study is None or not planned.has(run.id, run.started):
            continue
        if run.trial is not None or run.share != 1.0 or run.job_type != "train":
            others[run.status] += 1
        elif (other := own.get((run.arm, run.seed))) is None or (other.started or "") <= (run.started or ""):
            own[run.arm, run.seed] = run  # of an older question in this folder, the run of the newer one counts
    every_arm = tuple(dict.fromkeys((*arms, *sorted(arm for arm, _ in own))))
    needed = _needed_cells(current_registration(folder), arms, seeds, own)
    every_seed = tuple(sorted({seed for _, seed in (*needed, *own)}))
    pace = _usual_seconds(own.values())
    cells = {
        (arm, seed): _cell(own.get((arm, seed)), pace.get(arm, pace.get("")))
        if (arm, seed) in needed or (arm, seed) in own or arm not in arms or seed not in seeds
        else BoardCell(NOT_NEEDED)
        for arm in every_arm
        for seed in every_seed
    }
    return StudyBoard(every_arm, every_seed, cells, dict(others))


def _needed_cells(
    registered: Mapping[str, Any], arms: Sequence[str], seeds: Sequence[int], own: Mapping[tuple[str, int], RunSummary]
) -> set[tuple[str, int]]:
    """Return the registered cells without those that a study which adds seeds until it is decided does not need."""
    every = {(arm, seed) for arm in arms for seed in seeds}
    if not registered.get("rounds"):
        return every
    # These import numpy, and a server starts without it.
    from headtohead.comparison.contrasts import Registration, SeedRounds
    from headtohead.comparison.verdicts.seed_rounds import EndedRun, follow_rounds

    def ended(arm: str, index: int) -> EndedRun | None:
        run = own.get((arm, seeds[index]))
        if run is None or run.status not in ENDED:
            return None
        value = run.results.get(registered["metric"]) if run.status == "finished" else None
        is_number = value is not None and math.isfinite(value)
        return EndedRun(value if is_number else None, counts=run.status in COUNTED)

    try:
        known = {name: registered[name] for name in ("direction", "margin", "alpha", "solved_at")}
        registration = Registration(**known, paired=not registered["seed_offsets"])
        contrasts = [(arm, other) for arm, other in registered["contrasts"]]
        progress = follow_rounds(SeedRounds(**registered["rounds"]), arms, contrasts, registration, ended)
    except (KeyError, TypeError, ValueError, IndexError):  # somebody else may have written it
        return every
    return {(arm, seed) for arm in arms for seed in (seeds if progress.may_grow(arm) else seeds[: progress.seeds[arm]])}


def current_registration(folder: Path) -> Mapping[str, object]:
    """Return what is registered of the question that the study was started with last; empty where there is nothing
    that can be read."""
    registrations: dict[str, Mapping[str, object]] = {}
    for file in (folder / "registrations").glob("*.json"):
        with suppress(OSError, UsageError):
            registrations[file.name] = read_object(file)
    newest = max(registrations.values(), key=lambda one: str(one.get("time")), default={})
    return registrations.get(read_planned_runs(folder).registration, newest)


def registered_cells(folder: Path) -> tuple[Sequence[str], Sequence[int]]:
    """Return the arms and seeds of the study's registration."""
    current = current_registration(folder)
    arms, seeds = current.get("arms"), current.get("seeds")
    named = [str(arm) for arm in arms] if isinstance(arms, Mapping) else []
    return named, [seed for seed in seeds if isinstance(seed, int)] if isinstance(seeds, list) else []


def _usual_seconds(runs: Iterable[RunSummary]) -> dict[str, float]:
    """Return the seconds of a run of each arm, and under "" those of any arm, as far as runs tell."""
    by_arm: dict[str, list[float]] = {}
    for run in runs:
        if (seconds := _whole_seconds(run)) is not None:
            by_arm.setdefault(run.arm, []).append(seconds)
    pace = {arm: fmean(values) for arm, values in by_arm.items()}
    return pace | ({"": fmean(pace.values())} if pace else {})


def _whole_seconds(run: RunSummary) -> float | None:
    """Return what the run took, or will take at its pace so far."""
    seconds, step = run.progress.get("seconds") or 0.0, run.progress.get("step") or 0
    if run.status == "finished":
        return seconds
    return seconds / step * run.max_steps if run.status in _OPEN and step and run.max_steps else None


def _cell(run: RunSummary | None, usual: float | None) -> BoardCell:
    if run is None:
        return BoardCell(MISSING, seconds_left=usual)
    share = min(1.0, (run.progress.get("step") or 0) / run.max_steps) if run.max_steps else 0.0
    if run.status not in _OPEN:
        return BoardCell(run.status, 1.0 if run.status == "finished" else share, run.path)
    whole = _whole_seconds(run)
    whole = usual if whole is None else whole
    return BoardCell(run.status, share, run.path, None if whole is None else (1 - share) * whole)
