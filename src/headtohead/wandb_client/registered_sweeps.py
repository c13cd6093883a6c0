"""Sweeps in Weights & Biases: registered with its server, worked on by its agents, which pass a sweep and its values to
the runs that they start (https://docs.wandb.ai/guides/sweeps).

The client would lock these in the run's configuration, where a swept group's name takes the place of all that the
group is, and the fields of nested parameters that of all others beside them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from headtohead.errors import UsageError
from headtohead.files.safe_read import read_yaml
from headtohead.wandb_client.connection import logged_in, server_url, unreachable

_CONNECT_TIMEOUT = 5.0


class NoSweepError(UsageError):
    """The server has no sweep of ours; the message says why, and what to do."""


@dataclass(frozen=True)
class RegisteredSweep:
    """One that the server knows."""

    entity: str
    project: str
    id: str

    @property
    def path(self) -> str:
        """Return the sweep's path as `wandb agent` takes it, on any machine that is logged in."""
        return f"{self.entity}/{self.project}/{self.id}"

    @property
    def url(self) -> str:
        return f"{server_url()}/{self.entity}/{self.project}/sweeps/{self.id}"

    @property
    def agent_command(self) -> tuple[str, ...]:
        """Signals are handed on, so that whoever is asked to end leaves no run behind."""
        return (sys.executable, "-m", "wandb", "agent", "--forward-signals", self.path)

    def runs_started_below(self, folder: Path) -> set[str]:
        """W&B's ids of the runs that agents of this folder have begun: each left a file with its values."""
        prefix = "config-"
        files = (folder / "wandb" / f"sweep-{self.id}").glob(f"{prefix}*.yaml")
        return {file.stem.removeprefix(prefix) for file in files}


def check_server() -> None:
    """Raises NoSweepError where no sweep could be registered."""
    if not logged_in():
        raise NoSweepError(
            f"a sweep of W&B needs a login at {server_url()}: run `wandb login` or set WANDB_API_KEY; without --wandb "
            "the same file runs here, with no account"
        )
    if trouble := unreachable(server_url(), timeout=_CONNECT_TIMEOUT):
        raise NoSweepError(
            f"{server_url()} cannot be reached ({trouble}): try again; without --wandb the same file runs here"
        )


def register(config: Mapping[str, object], *, project: str, entity: str | None) -> RegisteredSweep:
    """Raises NoSweepError where the server does not take it."""

    import wandb

    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        try:
            sweep = wandb.sweep(dict(config), entity=entity, project=project)
        except Exception as error:  # wrong key, no right to the project, a server in trouble ...
            raise NoSweepError(
                f"{server_url()} did not take the sweep ({' '.join(str(error).split())[:300]}): `wandb login` changes "
                "the key; without --wandb the same file runs here"
            ) from None
    return RegisteredSweep(os.environ["WANDB_ENTITY"], os.environ["WANDB_PROJECT"], sweep)


_SWEEP, _VALUES = "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH"


def sweep_id() -> str | None:
    """Return None where no agent started this process."""
    return os.environ.get(_SWEEP) or None


def sweep_values() -> dict[str, Any]:
    """The values of this run, by parameter as the sweep's file names it."""
    file = os.environ.get(_VALUES)
    if not file or not Path(file).is_file():
        return {}
    content = read_yaml(Path(file))
    if not isinstance(content, Mapping):
        return {}
    return {name: entry["value"] for name, entry in content.items() if isinstance(entry, dict) and "value" in entry}


@contextmanager
def unlocked() -> Iterator[None]:
    """Inside, W&B's client knows the sweep and not the values."""
    file = os.environ.pop(_VALUES, None)
    try:
        yield
    finally:
        if file is not None:
            os.environ[_VALUES] = file


def with_swept(config: Mapping[str, object]) -> dict[str, Any]:
    """Return the configuration and, where its sweep's charts and search look for them, the swept values; what the
    run is has the last word."""
    return {**sweep_values(), **config}


def stop_message(signal: str) -> str | None:
    """Return why a signal reached a run of an agent; None if there was none."""
    sweep = sweep_id()
    if sweep is None or signal != "SIGTERM":
        return None
    return f"stopped by the agent of sweep {sweep}: by early termination, or on the sweep's page"
