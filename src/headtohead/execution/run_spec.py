"""One run among many: where it belongs, the overrides and the configuration that make it, and an id made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from headtohead.config.run_config import RunConfig
from headtohead.errors import UsageError
from headtohead.records.record import StudyPosition

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

    @cached_property
    def devices(self) -> int:
        """Return how many devices the run takes."""
        return RunConfig(self.config).devices

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
    return max((run.devices for run in runs), default=1)


def refuse_several_machines(config: Mapping[str, object], whose: str) -> None:
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
