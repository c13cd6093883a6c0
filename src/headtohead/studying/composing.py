"""Configurations of the runs of a study, many and nearly alike: Hydra composes what sets arms apart, and once.

A field of the run, its optimizer, schedule or trainer depends on no other field and none on it, unless some YAML or
override refers to another field by ${...}: then such a value is put into its place, and the result checked as always.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from types import NoneType
from typing import Any

from headtohead.building.choices import config_folders
from headtohead.building.configuration import Config, compose_checked
from headtohead.building.errors import ConfigurationError
from headtohead.building.overrides import key_of
from headtohead.files.reading import read_text

_ROOT = ("seed", "name", "group", "output_dir")
_NODES = ("optimizer", "schedule", "trainer")
_STARTS = {"init_from", "resume_from"}
"""A run that starts from another takes fields of it over."""
_SCALARS = (int, float, str, NoneType)
_REFERENCE = "${"


class Composer:
    """Those of one study; nobody may change what it hands out."""

    def __init__(self, config_dir: str | Path | None = None) -> None:
        self._config_dir = config_dir
        self._known: dict[tuple[str, ...], Config] = {}
        self._rests: dict[tuple[str, ...], Config | None] = {}
        self._refers = any(
            _REFERENCE in read_text(path) for folder in config_folders(config_dir) for path in folder.rglob("*.yaml")
        )

    def composed(self, overrides: Sequence[str]) -> Config:
        """As compose_checked("train", overrides) has it; raises ConfigurationError likewise."""
        key = tuple(overrides)
        if key not in self._known:
            self._known[key] = self._filled(key)
        return self._known[key]

    def _filled(self, overrides: tuple[str, ...]) -> Config:
        filled = None if self._refers or any(_REFERENCE in text for text in overrides) else self._with_fields(overrides)
        if filled is None:
            return compose_checked("train", overrides, self._config_dir)
        from headtohead.building import compatibility, schema
        from headtohead.building.epochs import settled_length

        return settled_length(schema.check(filled), overrides, compatibility.check)

    def _with_fields(self, overrides: tuple[str, ...]) -> Config | None:
        """None where Hydra and the schema have to say what is meant, or what is wrong with it."""
        keys = {key_of(override) for override in overrides}
        plain = tuple(override for override in overrides if _is_plain(override))
        values = {key_of(override): _value(override) for override in plain}
        if "name" not in values or keys & _STARTS or not all(isinstance(value, _SCALARS) for value in values.values()):
            return None
        rest = self._rest((*(override for override in overrides if override not in plain), "name=unnamed"))
        if rest is None:
            return None
        config = deepcopy(rest)
        return config if all(_put(config, path, value) for path, value in values.items()) else None

    def _rest(self, overrides: tuple[str, ...]) -> Config | None:
        if overrides not in self._rests:
            try:
                self._rests[overrides] = compose_checked("train", overrides, self._config_dir)
            except ConfigurationError:  # without its fields an arm may be none that could be
                self._rests[overrides] = None
        return self._rests[overrides]


def _is_plain(override: str) -> bool:
    """field=value, of a field that nothing is derived from."""
    key, sign, value = override.partition("=")
    root, dot, _ = key.partition(".")
    return bool(sign and value) and (key in _ROOT or (bool(dot) and root in _NODES and "@" not in key))


def _value(override: str) -> Any:
    """As Hydra reads it; what it cannot read is no scalar."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(f"++{override}").value()
    except HydraException:
        return [override]


def _put(config: Config, path: str, value: Any) -> bool:
    """Whether there is such a field, and it held no more than one value."""
    *parents, name = path.split(".")
    node: Any = config
    for parent in parents:
        node = node.get(parent) if isinstance(node, dict) else None
    if not isinstance(node, dict) or name not in node or isinstance(node[name], dict | list):
        return False
    node[name] = value
    return True
