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
from headtohead.execution.run_spec import WorkPlan

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
    if value.lstrip("-").isdigit() and int(value) != 0:
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

    def commands(
        self, arguments: Sequence[str], plan: WorkPlan, *, devices: int, most: int | None = None
    ) -> list[Command]:
        """Return the same command for every worker, except for its log below the plan's folder; there are no more
        workers than `most`, and no run takes more than `devices`."""
        choose_claims(plan.folder, self.launcher.claims)
        where = ("--config-dir", str(self.config_dir)) if self.config_dir else ()
        parent = ("--parent", str(os.getpid())) if self.launcher.is_parent else ()
        trusted = (word for name in self.trust for word in ("--trust", name))
        whole = (*PROGRAM, *arguments, "--worker", "--threads", str(self.threads), *parent, *where, *trusted)
        number, call = self.number if most is None else min(most, self.number), secrets.token_hex(4)
        logs = [plan.folder / "logs" / f"worker-{call}-{worker}.log" for worker in range(number)]
        return [Command(whole, log, self.threads, devices) for log in logs]


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
    return Workers(launcher, number, threads or launcher.threads(number), config_dir, tuple(trust)), list(
        chosen.of_runs
    )
