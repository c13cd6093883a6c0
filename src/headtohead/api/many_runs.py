"""A run for every combination of values, from Python: trained or resumed by workers, their records as a frame."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.api.configurations import configuration
from headtohead.api.error_translation import python_errors, python_errors_with
from headtohead.api.logged_curves import curves_frame
from headtohead.api.progress import progress_of_runs
from headtohead.api.result import Result, upgraded
from headtohead.api.training import TrainedRun
from headtohead.comparison.tables.run_table import line_of
from headtohead.config.compose.overrides import override_combinations
from headtohead.config.trust import trusting
from headtohead.execution.launchers.launcher import EndedCommand, LocalProcesses, errors_of
from headtohead.execution.launchers.worker_commands import workers_for
from headtohead.execution.multirun import (
    Multirun,
    MultirunJob,
    planned_jobs,
    without_impossible_layers,
    without_missing_data,
)
from headtohead.execution.multirun_workers import conduct, prepare, worker_words
from headtohead.execution.single_run import record_of
from headtohead.ranges import Threads

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class ManyRuns(Result):
    """The runs of all combinations, a row for each."""

    multirun: Multirun
    """The runs, and the combinations that make none, each with the reason."""
    records: Mapping[MultirunJob, TrainedRun | None]
    """The record of each run; None where it never started."""
    errors: Sequence[str] = ()
    """The last words of workers that ended with an error."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        done = sum(record is not None and record.status == "finished" for record in self.records.values())
        return f"{done} of {len(self.multirun.jobs) + len(self.multirun.refused)} runs finished"

    @property
    def sentences(self) -> Sequence[str]:
        """Return why combinations were refused, and runs failed."""
        refused = [f"refused {overrides}: {reason}" for overrides, reason in self.multirun.refused.items()]
        return [*self.errors, *refused, *(f"{job.name} {why}" for job, why in self.failures.items())]

    @property
    def failures(self) -> Mapping[MultirunJob, str]:
        """Return of each run that has not finished how it ended, and why."""
        return {
            job: _failure(record)
            for job, record in self.records.items()
            if record is None or record.status != "finished"
        }

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [_row(job, record) for job, record in self.records.items()]

    @python_errors
    def curve(self, name: str = "validation/loss") -> DataFrame:
        """Return one logged metric of all runs that have it: name, seed, step, epoch, tokens, flops, seconds, value."""
        runs = {job: record for job, record in self.records.items() if record is not None}
        return curves_frame((({"name": job.name, "seed": job.seed}, record) for job, record in runs.items()), name)


@python_errors_with(multirun="h2h.train_many(...)")
def train_many(
    overrides: Sequence[str],
    *,
    workers: Threads = 1,
    threads: Threads | None = None,
    config_dir: str | Path | None = None,
    from_run: str | Path | None = None,
    retry: bool = False,
    trust: Sequence[str] = (),
    progress: bool = True,
) -> ManyRuns:
    """Train a run for every combination: `train_many(["model/norm=layer_norm,rms_norm", "seed=range(3)"], workers=2)`.

    Overrides may choose the launcher (`launcher=slurm`). Ctrl-C stops it, and returns what is known; the same call
    resumes. `retry` restarts what failed. `config_dir`, `from_run` and `trust` are as in `compose`.
    """
    with trusting(trust):
        many, run_overrides = workers_for(overrides, workers, threads, config_dir, trust)
        points = override_combinations(run_overrides, config_dir)
        multirun = planned_jobs(points, lambda point: configuration(list(point), "train", config_dir, from_run))
        if isinstance(many.launcher, LocalProcesses):
            multirun = without_missing_data(multirun)
        multirun = without_impossible_layers(multirun)
        prepare(multirun, retry=retry)
        try:
            with progress_of_runs(len, shown=progress) as report:
                ended = conduct(multirun, many, worker_words(run_overrides, from_run), report)
        except KeyboardInterrupt:
            ended = []
        return outcome(multirun, ended)


def outcome(multirun: Multirun, ended: Sequence[EndedCommand]) -> ManyRuns:
    """Return what the runs left, and what the workers that did them said at last where they ended with an error."""
    return ManyRuns(multirun, {job: _record(multirun, job) for job in multirun.jobs}, errors_of(ended))


def _failure(record: TrainedRun | None) -> str:
    if record is None:
        return "never started"
    where = "" if record.path is None else f", {os.path.relpath(record.path)}"
    return f"{record.status.replace('_', ' ')} ({record.reason}{where})"


def _row(job: MultirunJob, record: TrainedRun | None) -> Mapping[str, object]:
    if record is None:
        return {"name": job.name, "seed": job.seed, "status": "missing"}
    line = line_of(record)
    return {
        "name": line.name,
        "seed": line.seed,
        "status": line.status,
        "metric": f"{line.stage}/{line.metric}" if line.metric else None,
        "value": line.value,
        "parameters": line.parameters,
        "steps": line.steps,
        "path": line.path,
    }


def _record(multirun: Multirun, job: MultirunJob) -> TrainedRun | None:
    record = record_of(multirun.run_folder(job))
    return None if record is None else upgraded(TrainedRun, record)
