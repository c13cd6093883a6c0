"""The configuration of a run that was, to be run again: as it stands, or with overrides on top."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from headtohead.config.compose.by_hydra import Config
from headtohead.config.compose.choices import config_folders
from headtohead.config.compose.composition import compose, renamed
from headtohead.config.compose.layer_patterns import PATTERNS, ready_parts
from headtohead.config.compose.overrides import key_of
from headtohead.config.compose.plain_choices import GROUP as SIZE
from headtohead.config.compose.plain_choices import fields_of_size
from headtohead.config.compose.replacements import note_replaced
from headtohead.config.compose.steps_and_batches import resolved_length
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules import compatibility
from headtohead.config.rules.unread_overrides import refuse_unread
from headtohead.config.rules.unread_source_fields import refuse_unread_of_sources
from headtohead.config.schema import key_checks
from headtohead.config.schema.slots import slot_of
from headtohead.config.trust import check_recorded
from headtohead.files.safe_read import read_text, read_yaml
from headtohead.pretrained.checkpoint_reference import PREFIX
from headtohead.records.secrets import MASK

_REFUSED = {
    "experiment": "an experiment makes choices in many groups at once: give only those that should differ",
    "resume_from": "a continued run has its own configuration: give resume_from=RUN without --from-run",
}
_PLACED = (*(pattern.prefix for pattern in PATTERNS), "model/feedforward@model.early_feedforward")
"""The groups whose choices may stand in places that a model's own file does not have."""
_DATA = {"data", "task"}
_log = logging.getLogger(__name__)


def rerun(path: str | Path, overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> Config:
    """That of a run's folder, record.json or config.yaml, checked like any other; raises ConfigurationError.

    A group takes its new choice whole; where old and new choice are of one class (trainer, precision), what sets the
    new one apart. With other data or another task, what the model took from the data is taken again.
    """
    recorded = _read(Path(path))
    usual = compose("train", _family(recorded), config_dir)
    config = {**{key: value for key, value in usual.items() if key not in recorded}, **deepcopy(recorded)}
    config["choices"] = {**usual["choices"], **(recorded.get("choices") or {})} if "choices" in recorded else {}
    config["resume_from"] = None
    if overrides:
        _ConfigRevision(config, overrides, config_dir).apply()
    _refuse_masked(config, "")
    checked = key_checks.check(config)
    refuse_unread(overrides, checked)
    refuse_unread_of_sources(overrides, checked)
    checked = resolved_length(checked, overrides, compatibility.check)
    if checked.get("name") is None or (overrides and "name" not in map(key_of, overrides)):
        checked["name"] = renamed(recorded, checked, overrides)
    return checked


def _read(path: Path) -> Config:
    """A file is read as what it is; of a folder, config.yaml is what was meant to be run again."""
    from headtohead.records.run_folder import RECORD

    file = next((path / name for name in ("config.yaml", RECORD) if (path / name).is_file()), path)
    if not file.is_file():
        raise ConfigurationError(
            f"--from-run {path} holds no config.yaml: name the folder of a run, outputs/GROUP/RUN, its record.json or "
            "its config.yaml"
        )
    config = _from_record(file) if file.suffix == ".json" else read_yaml(file)
    if not isinstance(config, dict) or not isinstance(config.get("model"), dict):
        raise ConfigurationError(f"--from-run {path}: {file.name} holds no configuration of a run")
    check_recorded(config, file)
    return config


def _from_record(file: Path) -> Any:
    from headtohead.records.record import from_json

    return from_json(read_text(file), where=str(file)).config


def _family(config: Mapping[str, Any]) -> list[str]:
    """Other families have other parts to choose."""
    model = (config.get("choices") or {}).get("model")
    return [f"model={model}"] if model else []


def _refuse_masked(value: Any, path: str) -> None:
    """Secrets are not recorded."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_masked(item, f"{path}.{key}" if path else str(key))
    elif value == MASK:
        raise ConfigurationError(f"{path} is a secret, which no record keeps: give it again, {path}=...")


class _ConfigRevision:
    """Overrides put into a recorded configuration: groups first, the upper ones before their parts, then fields."""

    def __init__(self, config: Config, overrides: Sequence[str], config_dir: str | Path | None) -> None:
        self._config, self._config_dir = config, config_dir
        self._choices: dict[str, str | None] = config["choices"]
        self._keys = {key_of(override): override for override in overrides}
        for key, override in self._keys.items():
            _refuse(key, override)
        family = [] if "model" in self._keys else _family(config)
        set_by_hand = [override for override in overrides if not override.startswith("~")]
        self._composed = compose("train", [*family, *self._placed(), *set_by_hand], config_dir)

    def _placed(self) -> list[str]:
        """The run's parts with places of their own, so that a pattern may name them and fields may change."""
        if "model" in self._keys:
            return []
        ready = ready_parts(self._choices.get("model") or "", self._config_dir)
        return [
            f"{'' if group in ready else '+'}{group}={choice}"
            for group, choice in self._choices.items()
            if group.startswith(_PLACED) and group not in self._keys
        ]

    def apply(self) -> None:
        new = {group for group in self._composed["choices"] if group.startswith(_PLACED) and group not in self._choices}
        groups = new | {key for key in self._keys if key in self._composed["choices"]}
        for group in sorted(groups, key=lambda group: (group.count("/"), group == SIZE)):
            self._choose(group)
        note_replaced(self._config, self._config, self._composed, groups)
        for key, override in self._keys.items():
            if key not in groups:
                self._set(key.split("."), override)
        if {re.split(r"[./]", key)[0] for key in self._keys} & _DATA:
            self._forget_data()

    def _choose(self, group: str) -> None:
        chosen, before = self._composed["choices"][group], self._choices.get(group)
        below = (f"{group}/", f"{group}@")
        for known in [known for known in self._choices if known == group or known.startswith(below)]:
            del self._choices[known]
        made = {name: choice for name, choice in self._composed["choices"].items() if name.startswith(below)}
        self._choices |= {**made, group: chosen}
        if group == SIZE:
            self._resize(str(chosen))
            return
        slot, _, package = group.partition("@")
        path = package.split(".") if package else slot.split("/")
        node, had = _at(self._composed, path), _at(self._config, path)
        if isinstance(had, Mapping) and isinstance(node, Mapping) and had.get("_target_") == node.get("_target_"):
            usual = self._usual(group, before, path)
            node = {**had, **{key: value for key, value in node.items() if usual.get(key, ...) != value}}
        _put(self._config, path, deepcopy(node))

    def _usual(self, group: str, choice: str | None, path: Sequence[str]) -> Mapping[str, object]:
        """The choice that the run had, with nothing set by hand."""
        if choice is None:
            return {}
        family = _family(self._config) if group.startswith("model/") else []
        sign = "+" if "@" in group else ""
        return _at(compose("train", [*family, f"{sign}{group}={choice}"], self._config_dir), path) or {}

    def _resize(self, size: str) -> None:
        """A size is not a node of its own: it speaks of fields of the model."""
        composed = self._composed["model"]
        named = fields_of_size(size, config_folders(self._config_dir))
        self._config["model"] |= {name: composed[name] for name in named if name in composed}

    def _set(self, path: Sequence[str], override: str) -> None:
        if not override.startswith("~"):
            _put(self._config, path, deepcopy(_at(self._composed, path)))
            return
        node = _at(self._config, path[:-1])
        if not isinstance(node, dict) or path[-1] not in node:
            raise ConfigurationError(f"{override} is refused: the run has no {'.'.join(path)}")
        del node[path[-1]]

    def _forget_data(self) -> None:
        """Reset fields that are filled from the data to null; nobody can tell any more whether they were typed."""
        model = self._config["model"]
        for name in sorted(slot_of("model").filled):
            if model.get(name) is not None and f"model.{name}" not in self._keys:
                model[name] = None
                _log.info("model.%s is taken from the data again: set it to keep it", name)


def _refuse(key: str, override: str) -> None:
    published = key == "init_from" and override.partition("=")[2].startswith(PREFIX)
    if key in _REFUSED or published:
        reason = _REFUSED.get(key, "a published checkpoint chooses the model; give it without --from-run")
        raise ConfigurationError(f"{override} cannot be put on a run that was: {reason}")
    if "${" in override:
        raise ConfigurationError(
            f"{override} cannot be put on a run that was, whose references are resolved: give the value"
        )


def _at(config: Mapping[str, object], path: Sequence[str]) -> Any:
    node: Any = config
    for name in path:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def _put(config: Config, path: Sequence[str], value: Any) -> None:
    node = config
    for name in path[:-1]:
        if not isinstance(node.get(name), dict):
            node[name] = {}
        node = node[name]
    node[path[-1]] = value
