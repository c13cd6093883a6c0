"""Head to Head from Python: compose, build, train, inspect, load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.building.build import build_model, build_parts, fitted, make_model
from headtohead.building.configuration import compose_checked
from headtohead.examining.inspection import Inspection
from headtohead.tracking.record import RunRecord

__all__ = ["build_model", "build_parts", "compose", "inspect", "load_run", "train"]


def compose(root: str = "train", overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> dict[str, Any]:
    """A configuration, resolved and checked: `compose("train", ["model=decoder_only", "model/size=small"])`.

    `config_dir` is a folder with YAML files of your own, by group. Raises ConfigurationError, a ValueError.
    """
    return compose_checked(root, overrides, config_dir)


def train(config: Mapping[str, Any]) -> RunRecord:
    """Trains, and gives the record of the run; `record.path` is its folder."""
    from headtohead.training.run import train as train_parts

    return train_parts(build_parts(config))


def inspect(config: Mapping[str, Any]) -> Inspection:
    """The ledger and the shapes at every stage, without training and without memory for the weights."""
    from headtohead.examining.inspection import inspect as inspect_model

    filled, size = fitted(config)
    return inspect_model(make_model(filled, "meta"), size)


def load_run(path: str | Path) -> RunRecord:
    """The record of a run, by its folder."""
    from headtohead.tracking.store import load_run as load

    return load(path)
