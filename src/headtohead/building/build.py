"""From a checked configuration to objects: data, model, task, optimizer, and all the parts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from headtohead.architectures.contracts import Architecture, InputSize
from headtohead.architectures.costs import ledger
from headtohead.building.data_fit import fit
from headtohead.building.errors import ConfigurationError
from headtohead.building.sources import class_value
from headtohead.components.checkpointing import Checkpointing
from headtohead.data.contracts import DataSource, DataSpec
from headtohead.tasks.contracts import Task
from headtohead.tracking.connection import TrackingSettings
from headtohead.training.parts import Identity, Parts, Settings
from headtohead.training.precision import Precision


def build_data(config: Mapping[str, Any]) -> DataSource:
    return _make(config["data"])


def build_task(config: Mapping[str, Any]) -> Task:
    return _make(config["task"])


def build_model(
    config: Mapping[str, Any], *, spec: DataSpec | None = None, device: torch.device | str | None = None
) -> Architecture:
    """A plain module, `model(tokens) -> logits`; `device="meta"` makes it without memory.

    What the configuration leaves null (vocabulary, lengths, classes, image shape) is taken from the data's `spec`.
    """
    spec = spec if spec is not None else build_data(config).spec()
    filled = fit(config, spec)
    with torch.device(device) if device is not None else nullcontext():
        return _make(filled["model"], head=class_value(config["task"]["_target_"], "head"))


def _make(node: Mapping[str, Any], **passed: Any) -> Any:
    """Calls the constructor of a node, and first those of the nodes in it."""
    try:
        return instantiate(dict(node), _convert_="all", **passed)
    except InstantiationException as error:
        # Hydra wraps what a constructor raised; its own message is the one for the user.
        raise error.__cause__ or error from None
