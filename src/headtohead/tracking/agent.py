"""What W&B's agent tells a run that it starts: which sweep it is of, and its values (https://docs.wandb.ai/guides/sweeps).

The client would lock these in the run's configuration, where a swept group's name takes the place of all that the
group is, and the fields of nested parameters that of all others beside them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headtohead.files.reading import read_yaml

_SWEEP, _VALUES = "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH"


def sweep_id() -> str | None:
    """None where no agent started this process."""
    return os.environ.get(_SWEEP) or None


def handed_over() -> dict[str, Any]:
    """The values of this run, by parameter as the sweep's file names it."""
    file = os.environ.get(_VALUES)
    if not file or not Path(file).is_file():
        return {}
    content = read_yaml(Path(file)) or {}
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


def with_swept(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration and, where its sweep's charts and search look for them, the swept values; what the run is has
    the last word."""
    return {**handed_over(), **config}


def words_of_a_stop(signal: str) -> str | None:
    """Why a signal reached a run of an agent; None where there is none."""
    sweep = sweep_id()
    if sweep is None or signal != "SIGTERM":
        return None
    return f"ended by the agent of sweep {sweep}: by its early termination, or by somebody who stopped it"
