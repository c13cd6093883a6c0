"""Many runs by one command: every combination of swept overrides, each an ordinary run with an id of its content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.building.content import run_id
from headtohead.building.errors import ConfigurationError
from headtohead.studying.cells import Cell
from headtohead.studying.work import Work
from headtohead.tracking.record import Place
from headtohead.tracking.store import slug

FOLDER = ".multirun"
"""Of leases and logs, beside the groups of runs and never taken for one."""
Compose = Callable[[Sequence[str]], Mapping[str, Any]]


@dataclass(frozen=True)
class Job(Cell):
    """One run of a multirun; it belongs to no study."""

    @property
    def name(self) -> str:
        return str(self.config["name"])

    @property
    def place(self) -> Place:
        return Place()


@dataclass(frozen=True)
class Multirun(Work):
    """All that is to be run, and what cannot be."""

    jobs: tuple[Job, ...]
    refused: Mapping[str, str]
    """What was swept in combinations that make no run, each with the reason."""

    budget_name = None
    is_open = False

    @property
    def folder(self) -> Path:
        return Path(self.jobs[0].config["output_dir"]) / FOLDER

    def run_folder(self, cell: Cell) -> Path:
        """The same for the same content, whenever and by whichever command it is run."""
        return Path(cell.config["output_dir"]) / slug(cell.config["group"]) / cell.id


def planned(points: Sequence[Sequence[str]], compose: Compose) -> Multirun:
    """Combinations that come to the same are one run; raises ConfigurationError where none could be run."""
    swept = _swept(points)
    jobs: dict[str, Job] = {}
    refused: dict[str, str] = {}
    for point in points:
        try:
            config = compose(point)
        except ConfigurationError as error:
            refused[" ".join(override for override in point if override in swept)] = str(error)
            continue
        _refuse(config)
        job = Job(str(config["name"]), config["seed"], tuple(point), config, run_id(config))
        jobs.setdefault(job.id, job)
    if not jobs:
        raise ConfigurationError(next(iter(refused.values()), "there is nothing to run"))
    return Multirun(tuple(jobs.values()), refused)


def _swept(points: Sequence[Sequence[str]]) -> set[str]:
    """Overrides that not every run has."""
    return set().union(*points).difference(set(points[0]).intersection(*points))


def _refuse(config: Mapping[str, Any]) -> None:
    trainer = config["trainer"]
    if trainer["devices"] * trainer["num_nodes"] > 1:
        raise ConfigurationError(
            f"trainer.devices={trainer['devices']} is refused with --multirun and launcher=..., since Lightning begins "
            "the other processes of a run by its command line, and this one stands for many: set trainer.devices=1 "
            "and --workers for several runs at once, or start one run by torchrun or srun with --resumable"
        )
    if config.get("resume_from"):
        raise ConfigurationError(
            f"resume_from={config['resume_from']} is refused with --multirun, which goes on by itself with what was "
            "interrupted: take it out"
        )
