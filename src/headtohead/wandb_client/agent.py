"""Read what W&B's agent passes to a run that it starts: its sweep and its values (https://docs.wandb.ai/guides/sweeps).

The client would lock these in the run's configuration, where a swept group's name takes the place of all that the
group is, and the fields of nested parameters that of all others beside them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headtohead.files.safe_read import read_yaml

_SWEEP, _VALUES = "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH"


def sweep_id() -> str | None:
    """Return None where no agent started this process."""
    return os.environ.get(_SWEEP) or None


def sweep_values() -> dict[str, Any]:
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
    """Return the configuration and, where its sweep's charts and search look for them, the swept values; what the
    run is has the last word."""
    return {**sweep_values(), **config}


def stop_message(signal: str) -> str | None:
    """Return why a signal reached a run of an agent; None if there was none."""
    sweep = sweep_id()
    if sweep is None or signal != "SIGTERM":
        return None
    return f"stopped by the agent of sweep {sweep}: by early termination, or on the sweep's page"
