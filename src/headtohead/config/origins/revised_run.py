"""A finished run's configuration with other data, or with other model parts that leave its weights as they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from headtohead.config.compose.composition import compose
from headtohead.config.compose.overrides import key_of
from headtohead.config.compose.replacements import note_replaced
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules import compatibility
from headtohead.config.schema import key_checks

REVISABLE = ("data", "model", "task", "trainer", "precision")
_ROWS = ("batch_size", "context_length", "packing", "tokenizer", "vocab_size")
"""Fields of data that say how it is read, not what it is: other data is read as the run's own was."""
_SETTINGS = ("trainer", "precision")
"""Groups whose choices are settings of one class."""
_READ_OF_TRAINER = ("accelerator", "threads", "train_rows")
"""Fields of the trainer that play a part once a run is trained."""
_OF_TRAINING = ("task.label_smoothing", "model.dropout", "model.drop_path")
"""Fields of groups that are read otherwise, which change steps of training alone."""
_USUAL = "auto"
"""The trainer on which all others are based."""
_ONE_DEVICE = {
    "devices": 1, "num_nodes": 1, "strategy": "single", "tensor_parallel": 1, "shard_among": None, "reshard": True,
    "accumulate": 1,
}  # fmt: skip
"""A finished run is read on one device, whose batches are not split, however it was trained."""
_WHICH = ("_target_", "name", "subset", "folder", "path")
"""Fields of data that say what it is."""


def revised(
    config: Mapping[str, Any], overrides: Sequence[str], config_dir: str | Path | None = None
) -> dict[str, Any]:
    """Return the configuration with the overrides in it, checked like any other; raises ConfigurationError.

    Of another choice, what both choices have stays as it was trained, unless it is given: a rotary scaling keeps the
    base that the run's rotary had. Of other data all train rows are there, unless a number is given.
    """
    choices = config.get("choices") or {}
    family = [f"model={choices['model']}"] if choices.get("model") else []
    composed = compose("train", [*family, *overrides], config_dir)
    changed = deepcopy(dict(config))
    for key, value in composed.items():
        changed.setdefault(key, deepcopy(value))  # groups that are younger than the run
    keys = [key_of(override) for override in overrides]
    for key in sorted(keys, key=lambda key: key not in composed["choices"]):
        _refuse_others(key)
        if key in composed["choices"]:
            _choose(key, changed, composed, keys, lambda choice: compose("train", [*family, choice], config_dir))
        else:
            _set(key.split("."), changed, _at(composed, key.split(".")))
    note_replaced(changed, config, composed, [key for key in keys if key in composed["choices"]])
    if _is_other_data(config, changed) and "trainer.train_rows" not in keys and changed.get("trainer"):
        changed["trainer"]["train_rows"] = None
    # Where a run began does not belong to what it became, and the folder may be gone.
    apart = {**changed, "init_from": None, "resume_from": None}
    checked = key_checks.check(apart)
    compatibility.check({**checked, "trainer": {**checked["trainer"], **_ONE_DEVICE}})
    return checked


def _is_other_data(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return any(before["data"].get(field) != after["data"].get(field) for field in _WHICH)


def _refuse_others(key: str) -> None:
    root = re.split(r"[./@]", key)[0]
    if root not in REVISABLE or key in ("model", "task"):
        raise ConfigurationError(
            f"{key} cannot be changed for a run that is trained: what can are the data (data=..., data.path=...) and "
            "what leaves the weights as they are (model/position=..., task.mask_rate=..., trainer.accelerator=..., "
            "precision=...)"
        )
    if key in _OF_TRAINING:
        raise ConfigurationError(f"{key} plays no part once a run is trained: leave it out")
    group, _, field = key.partition(".")
    if group == "trainer" and field and field not in _READ_OF_TRAINER:
        raise ConfigurationError(
            f"{key} plays no part once a run is trained: leave it out (of the trainer, "
            f"{', '.join(_READ_OF_TRAINER)} do)"
        )


def _refuse_unread(choice: str, node: Mapping[str, object], usual: Mapping[str, object]) -> None:
    """Refuse a choice of the trainer that is set apart by nothing that plays a part."""
    apart = [field for field, value in node.items() if usual.get(field) != value]
    if apart and not set(apart) & set(_READ_OF_TRAINER):
        raise ConfigurationError(
            f"trainer={choice} sets {', '.join(apart)}, which only matter while a run trains: a finished run is "
            f"read on one device; leave it out, or say which, trainer.accelerator={_USUAL}"
        )


def _choose(
    group: str,
    config: dict[str, Any],
    composed: Mapping[str, Any],
    overrides: Sequence[str],
    default: Callable[[str], Mapping[str, Any]],
) -> None:
    slot, _, package = group.partition("@")
    path = package.split(".") if package else slot.split("/")
    node, before = dict(_at(composed, path)), _at(config, path) or {}
    if group == "trainer":
        _refuse_unread(composed["choices"][group], node, _at(default(f"{group}={_USUAL}"), path))
    fields = _ROWS if slot == "data" else tuple(before)
    had = (config.get("choices") or {}).get(group)
    if slot in _SETTINGS and had is not None:  # of another choice, what sets it apart
        usual = _at(default(f"{group}={had}"), path)
        fields = tuple(name for name in before if usual.get(name) == node.get(name))
    for name in fields:
        is_given = ".".join([*path, name]) in overrides
        if name in before and name in node and name not in ("_target_", "_partial_") and not is_given:
            node[name] = before[name]
    _set(path, config, node)
    config["choices"] = {**(config.get("choices") or {}), group: composed["choices"][group]}


def _at(config: Mapping[str, object], path: Sequence[str]) -> Any:
    node: Any = config
    for name in path:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def _set(path: Sequence[str], config: dict[str, Any], value: Any) -> None:
    node = config
    for name in path[:-1]:
        if not isinstance(node.get(name), dict):
            node[name] = {}
        node = node[name]
    node[path[-1]] = value
