"""Separate the launcher from the overrides: `launcher=slurm launcher.partition=gpu` belong to no run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError, one_of
from headtohead.execution.launchers.launcher import Launcher, LocalProcesses, processors

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
    """Where Hydra's spelling names a number."""

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
