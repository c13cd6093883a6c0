"""Many runs by one command: every combination of swept overrides, each an ordinary run with an id of its content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.data_paths import missing_data
from headtohead.config.run_config import Node, RunConfig
from headtohead.config.run_id import run_id
from headtohead.execution.run_spec import RunSpec, WorkPlan, refuse_several_machines
from headtohead.execution.single_run import is_done
from headtohead.records.record import StudyPosition
from headtohead.records.run_folder import MULTIRUN, slug

"""The folder of leases and logs, beside the groups of runs and never taken for one."""
Compose = Callable[[Sequence[str]], Mapping[str, Any]]


@dataclass(frozen=True)
class MultirunJob(RunSpec):
    """One run of a multirun; it belongs to no study."""

    @property
    def name(self) -> str:
        return str(RunConfig(self.config).name)

    @property
    def place(self) -> StudyPosition:
        return StudyPosition()


@dataclass(frozen=True)
class Multirun(WorkPlan):
    """All that is to be run, and what cannot be."""

    jobs: tuple[MultirunJob, ...]
    refused: Mapping[str, str]
    """The swept settings of combinations that make no run, each with the reason."""

    budget_name = None
    is_open = False

    @property
    def folder(self) -> Path:
        return Path(RunConfig(self.jobs[0].config).output_dir) / MULTIRUN

    def run_folder(self, run: RunSpec) -> Path:
        """Return the same folder for the same content, whenever and by whichever command it is run."""
        return Path(RunConfig(run.config).output_dir) / slug(RunConfig(run.config).group) / run.id


def planned_jobs(points: Sequence[Sequence[str]], compose: Compose) -> Multirun:
    """Combinations that come to the same are one run; raises ConfigurationError where none could be run."""
    swept = _swept(points)
    jobs: dict[str, MultirunJob] = {}
    refused: dict[str, str] = {}
    for point in points:
        try:
            config = compose(point)
        except ConfigurationError as error:
            refused[" ".join(override for override in point if override in swept)] = str(error)
            continue
        _refuse(config)
        job = MultirunJob(str(RunConfig(config).name), RunConfig(config).seed, tuple(point), config, run_id(config))
        jobs.setdefault(job.id, job)
    if not jobs:
        raise ConfigurationError(next(iter(refused.values()), "there is nothing to run"))
    return Multirun(tuple(jobs.values()), refused)


def without_missing_data(multirun: Multirun) -> Multirun:
    """Refuse the runs whose data are not there; raises ConfigurationError where none is left."""
    return _without(multirun, missing_data)


def without_impossible_layers(multirun: Multirun) -> Multirun:
    """Refuse the runs whose layers cannot be made; raises ConfigurationError where none is left."""
    from headtohead.config.layer_check import layers_error  # it imports torch

    return _without(multirun, layers_error)


def _without(multirun: Multirun, error: Callable[[Node], str | None]) -> Multirun:
    """Refuse the runs of which there is an error; those that have ended are not checked."""
    swept = _swept([job.overrides for job in multirun.jobs])
    jobs, refused = [], dict(multirun.refused)
    for job in multirun.jobs:
        sentence = None if is_done(multirun.run_folder(job)) else error(job.config)
        if sentence is None:
            jobs.append(job)
        else:
            refused[" ".join(override for override in job.overrides if override in swept)] = sentence
    if not jobs:
        raise ConfigurationError(next(iter(refused.values())))
    return Multirun(tuple(jobs), refused)


def _swept(points: Sequence[Sequence[str]]) -> set[str]:
    """Overrides that not every run has."""
    return set().union(*points).difference(set(points[0]).intersection(*points))


def _refuse(config: Mapping[str, object]) -> None:
    refuse_several_machines(config, "--multirun and launcher=...")
    if config.get("resume_from"):
        raise ConfigurationError(
            f"resume_from={config['resume_from']} is refused with --multirun, which resumes interrupted runs by "
            "itself: remove it"
        )
