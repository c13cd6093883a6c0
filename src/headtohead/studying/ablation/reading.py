"""The field ablation of a study, from its YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headtohead.building.errors import ConfigurationError, show, unknown
from headtohead.building.kinds import Kind, ListOf, MappingOf, MismatchError, OneOf, Text, Whole
from headtohead.studying.ablation.ablation import DESIGNS, Ablation

_REQUIRED = ("kind", "factors")


def _level(value: Any) -> str:
    """YAML reads the names 1, on and off as a number, true and false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class _ByLevel(Kind):
    """A mapping whose keys are names of levels."""

    item: Kind

    def read(self, value: Any) -> dict[str, Any]:
        named = {_level(key): entry for key, entry in value.items()} if isinstance(value, Mapping) else value
        return MappingOf(self.item).read(named)

    def wants(self) -> str:
        return f"a mapping from levels, each value {self.item.wants()}"


@dataclass(frozen=True)
class _LevelName(Kind):
    def read(self, value: Any) -> str:
        if not isinstance(value, str | int | float):
            raise self.refuse()
        return _level(value)

    def wants(self) -> str:
        return "the name of a level"


_PARTS: dict[str, Kind] = {
    "kind": OneOf(DESIGNS),
    "factors": MappingOf(_ByLevel(ListOf(Text()))),
    "base": MappingOf(_LevelName()),
    "resolution": Whole(),
    "combinations": Whole(),
}


@dataclass(frozen=True)
class AblationField(Kind):
    """Every key known; what is wrong is told with the key that holds it."""

    def read(self, value: Any) -> Ablation:
        if not isinstance(value, dict):
            raise self.refuse()
        for key in value:
            if key not in _PARTS:
                raise ConfigurationError(unknown(f"{key} is no field of ablation", str(key), list(_PARTS)))
        for key in _REQUIRED:
            if key not in value:
                raise ConfigurationError(f"ablation has no {key}: it needs {' and '.join(_REQUIRED)}")
        given = {key: _read(key, entry) for key, entry in value.items()}
        factors = {
            factor: {level: tuple(overrides) for level, overrides in levels.items()}
            for factor, levels in given.pop("factors").items()
        }
        return Ablation(factors=factors, **given)

    def wants(self) -> str:
        return "a mapping of kind, factors, base, resolution and combinations"


def _read(key: str, value: Any) -> Any:
    try:
        return _PARTS[key].read(value)
    except MismatchError as mismatch:
        raise ConfigurationError(f"ablation.{key}={show(value)} is refused: it must be {mismatch}") from None
