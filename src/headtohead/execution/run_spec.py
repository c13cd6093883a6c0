"""One run among many: where it belongs, the overrides and the configuration that make it, and an id made of them; and
many runs by one command: every combination of swept overrides, each an ordinary run with an id of its content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig
from headtohead.config.run_id import run_id
from headtohead.errors import UsageError
from headtohead.records.record import StudyPosition
from headtohead.records.run_folder import slug

FROM_RUN = "run:"
"""The prefix of the field init_from that the folder of a run follows."""


@dataclass(frozen=True)
class RunSpec:
    """One run of a study."""

    arm: str
    seed: int
    """That of the study; what the run itself is given may be offset."""
    overrides: tuple[str, ...]
    config: Mapping[str, Any] = field(compare=False, repr=False)
    id: str
    """The id, the same for the same content everywhere: machine, folder, order and company of other arms make no
    difference."""
    study: str = ""
    trial: int | None = None
    """The trial of the arm's tuning, which has a run for each of its seeds; such a run is never in a verdict."""
    share: float = 1.0
    """The share of the budget; verdicts rest on the whole."""
    is_foundation: bool = False
    """Whether others start from it; arm is its name then, and it is in no verdict."""

    @property
    def name(self) -> str:
        """Return the run's name; a sweep's trial is one run, and needs no seed in it."""
        is_swept = self.trial is not None and not self.study
        return run_name_of(self.arm, None if is_swept else self.seed, self.trial, self.share)

    @property
    def counts(self) -> bool:
        """Return whether a verdict may rest on the run."""
        return self.trial is None and self.share == 1 and not self.is_foundation

    @property
    def place(self) -> StudyPosition:
        """Return None where there is no study."""
        return StudyPosition(self.study, self.arm, self.seed, self.trial, self.share) if self.study else StudyPosition()


def run_name_of(arm: str, seed: int | None, trial: int | None = None, share: float = 1.0) -> str:
    """Return the run's name on terminals and dashboards: b-t2-s1000 is trial 2 of b with seed 1000."""
    parts = [arm]
    parts += [] if trial is None else [f"t{trial}"]
    parts += [] if seed is None else [f"s{seed}"]
    parts += [] if share == 1 else [f"{100 * share:g}pct"]
    return "-".join(parts)


def most_devices(runs: Iterable[RunSpec]) -> int:
    """Return the devices of the widest run."""
    return max((RunConfig(run.config).devices for run in runs), default=1)


def refuse_several_machines(config: Mapping[str, Any], whose: str) -> None:
    """Raise UsageError for a run over several nodes: a worker starts processes on its own machine alone."""
    if RunConfig(config).num_nodes > 1:
        raise UsageError(
            f"{whose}: trainer.num_nodes={RunConfig(config).num_nodes} is refused, since a worker starts the processes "
            "of a run on its own machine: set trainer.num_nodes=1 with trainer.devices, or start one run by torchrun "
            "or srun with --resumable"
        )


class WorkPlan(Protocol):
    """Runs below one folder."""

    @property
    def folder(self) -> Path:
        """Return the folder of leases, logs and runs."""

    @property
    def is_open(self) -> bool:
        """Return whether more runs follow from how the known ones end."""

    @property
    def budget_name(self) -> str | None:
        """Return what the records of the runs say about their budget."""

    def run_folder(self, run: RunSpec) -> Path:
        """Return the folder in which a run leaves its record."""


Replan = Callable[[], tuple[WorkPlan, Sequence[RunSpec]]]
"""Plans again, and says which runs are its own."""
StopReason = Callable[[RunSpec, Path], str | None]
"""A function that returns the reason why a run that is being trained into a folder should end now, if it should."""


FOLDER = ".multirun"
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
        return Path(RunConfig(self.jobs[0].config).output_dir) / FOLDER

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


def _swept(points: Sequence[Sequence[str]]) -> set[str]:
    """Overrides that not every run has."""
    return set().union(*points).difference(set(points[0]).intersection(*points))


def _refuse(config: Mapping[str, Any]) -> None:
    refuse_several_machines(config, "--multirun and launcher=...")
    if config.get("resume_from"):
        raise ConfigurationError(
            f"resume_from={config['resume_from']} is refused with --multirun, which resumes interrupted runs by "
            "itself: remove it"
        )
