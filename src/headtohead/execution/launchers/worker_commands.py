"""The command of a worker: the one that was typed, or its like for a request from Python, with the launcher that its
overrides name."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError, one_of
from headtohead.execution.claims.choice import choose_claims
from headtohead.execution.launchers.launcher import Command, Launcher, LocalProcesses, processors
from headtohead.execution.run_spec import RunSpec, WorkPlan, most_devices

GROUP = "launcher"
_OF_HYDRA = {
    "basic": "local",
    "joblib": "local",
    "ray": "ray",
    "submitit_local": "submitit_local",
    "submitit_slurm": "slurm",
}
"""Hydra's own launchers, and what does the same here."""


@dataclass(frozen=True)
class LauncherChoice:
    """Overrides sorted by what they are about."""

    of_runs: tuple[str, ...]
    of_launcher: tuple[str, ...]
    workers: int | None = None
    """The number of workers, where Hydra's spelling names one."""

    def make(self, config_dir: str | Path | None = None) -> Launcher:
        if not self.of_launcher:
            return LocalProcesses()
        from headtohead.config.compose.composition import compose_checked
        from headtohead.config.instantiate import make

        made: Launcher = make(compose_checked("launch", self.of_launcher, config_dir)[GROUP])
        return made


def launcher_choice(overrides: Sequence[str]) -> LauncherChoice:
    """Raises ConfigurationError where Hydra's launcher is one that has no like here."""
    of_runs, of_launcher, workers = [], [], None
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        if key_of(override).partition(".")[0] == GROUP:
            of_launcher.append(override)
        elif key == "hydra/launcher":
            of_launcher.append(f"{GROUP}={_like(value)}")
            workers = processors() if value == "joblib" and workers is None else workers
        elif key == "hydra.launcher.n_jobs":
            workers = _number(override, value)
        elif key.startswith("hydra.launcher."):
            of_launcher.append(f"{key.removeprefix('hydra.')}={value}")
        else:
            of_runs.append(override)
    return LauncherChoice(tuple(of_runs), tuple(of_launcher), workers)


def _like(launcher: str) -> str:
    if launcher not in _OF_HYDRA:
        raise ConfigurationError(
            f"hydra/launcher={launcher} has no counterpart (known are {one_of(_OF_HYDRA)}): choose with launcher=NAME, "
            "h2h list launcher shows them"
        )
    return _OF_HYDRA[launcher]


def _number(override: str, value: str) -> int:
    """joblib counts all processors as -1."""
    if value.lstrip("-").isdecimal() and int(value) != 0:
        return int(value) if int(value) > 0 else max(1, processors() + 1 + int(value))
    raise ConfigurationError(f"{override} is refused: give a number of runs at once, as --workers does")


PROGRAM = (sys.executable, "-c", "import sys; from headtohead.cli import main; sys.exit(main())")


@dataclass(frozen=True)
class Workers:
    """Workers say how many runs are made at once, and where."""

    launcher: Launcher
    number: int
    threads: int
    """The threads of the processor for each run."""
    config_dir: str | Path | None = None
    trust: Sequence[str] = ()
    are_threads_chosen: bool = False

    def commands(
        self, arguments: Sequence[str], plan: WorkPlan, runs: Sequence[RunSpec], *, most: int | None = None
    ) -> list[Command]:
        """Return the same command for every worker, except for its log below the plan's folder; there are no more
        workers than `most`."""
        choose_claims(plan.folder, self.launcher.claims)
        side_by_side, threads = self._side_by_side(plan, runs)
        where = ("--config-dir", str(self.config_dir)) if self.config_dir else ()
        parent = ("--parent", str(os.getpid())) if self.launcher.is_parent else ()
        trusted = (word for name in self.trust for word in ("--trust", name))
        whole = (*PROGRAM, *arguments, "--worker", "--threads", str(threads), *parent, *where, *trusted)
        number, call = side_by_side if most is None else min(most, side_by_side), secrets.token_hex(4)
        logs = [plan.folder / "logs" / f"worker-{call}-{worker}.log" for worker in range(number)]
        return [Command(whole, log, threads, most_devices(runs)) for log in logs]

    def _side_by_side(self, plan: WorkPlan, runs: Sequence[RunSpec]) -> tuple[int, int]:
        """Return how many runs are made at once, and the threads of each."""
        per_device = self.launcher.runs_per_device
        if per_device is None:
            return self.number, self.threads
        if most_devices(runs) > 1:
            raise ConfigurationError(
                f"launcher.runs_per_device={per_device} is refused for runs over several devices, which have theirs to "
                "themselves: leave it out, and say with --workers how many are made at once"
            )
        if per_device == "auto":
            from headtohead.execution.runs_per_device import run_memory

            least = self.threads if self.are_threads_chosen else 1
            per_device = run_memory(plan, runs, threads=least, trust=self.trust).at_once
            per_device = min(per_device, max(1, processors() // least // self.launcher.devices))
        number = per_device * self.launcher.devices
        number = min(number, self.number) if self.number > 1 else number
        return number, self.threads if self.are_threads_chosen else self.launcher.threads(number)


def workers_for(
    overrides: Sequence[str],
    number: int = 1,
    threads: int | None = None,
    config_dir: str | Path | None = None,
    trust: Sequence[str] = (),
) -> tuple[Workers, list[str]]:
    """Return the workers, whose launcher the overrides may choose (launcher=slurm), and the overrides of the runs."""
    chosen = launcher_choice(overrides)
    launcher = chosen.make(config_dir)
    number = chosen.workers or number
    of_each = threads or launcher.threads(number)
    workers = Workers(launcher, number, of_each, config_dir, tuple(trust), are_threads_chosen=threads is not None)
    return workers, list(chosen.of_runs)
