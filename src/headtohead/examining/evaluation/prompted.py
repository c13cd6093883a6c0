"""A language model asked for classes: the task of a finished run changed for that of prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from headtohead.building.configuration import compose
from headtohead.building.errors import ConfigurationError
from headtohead.building.overrides import key_of
from headtohead.building.revising import revised
from headtohead.building.sources import class_value
from headtohead.building.view import View

TASK = "multiple_choice"
_OF_TASK = "task."


def prompted(
    config: Mapping[str, Any], overrides: Sequence[str], config_dir: str | Path | None = None
) -> dict[str, Any]:
    """The run's configuration under task=multiple_choice, checked; raises ConfigurationError for models without a next
    token."""
    if class_value(config["task"]["_target_"], "head") != "language_model":
        raise ConfigurationError(
            f"--shots asks how likely words are after a prompt, and {View(config).chosen('task')} of this run has no "
            f"next token: give a run of task=causal_lm or task={TASK}"
        )
    of_task = [override for override in overrides if key_of(override).startswith(_OF_TASK)]
    composed = compose("train", [f"task={TASK}", *of_task], config_dir)
    choices = {**(config.get("choices") or {}), "task": TASK}
    changed = {**deepcopy(dict(config)), "task": composed["task"], "choices": choices}
    return revised(changed, [override for override in overrides if override not in of_task], config_dir)


def with_shots(config: Mapping[str, Any], shots: int | None) -> dict[str, Any]:
    """Nothing changes without a number."""
    return dict(config) if shots is None else {**config, "task": {**config["task"], "shots": shots}}
