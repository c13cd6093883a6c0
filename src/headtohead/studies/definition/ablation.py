"""The factors of an ablation, their levels, and the arms that a design makes of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, get_args

from headtohead.config.errors import ConfigurationError, show, unknown
from headtohead.config.schema.value_kinds import (
    Kind,
    ListOf,
    MappingOf,
    MismatchError,
    OneOf,
    TextKind,
    WholeNumber,
    by_name,
)
from headtohead.studies.definition.fractional_designs import balanced_fraction, regular_fraction

Design = Literal["one_factor", "factorial", "fractional"]
DESIGNS: tuple[Design, ...] = get_args(Design)
Levels = Mapping[str, str]
"""The levels of one arm, by factor."""
BASE = "base"
MOST = 2000
"""Combinations that a design is chosen from: more would be no study anyway."""


@dataclass(frozen=True)
class Ablation:
    """An ablation says which factors vary, around which base, and how many of the combinations are run."""

    kind: Design
    factors: Mapping[str, Mapping[str, tuple[str, ...]]]
    """The overrides by factor and level."""
    base: Levels = field(default_factory=dict)
    """The levels that everything is compared with; the first level of each factor it does not name."""
    resolution: int | None = None
    """The resolution of a fraction of two-level factors: at 4 no main effect hides behind an interaction of two, at 5
    nor do these."""
    combinations: int | None = None
    """The number of combinations that a fraction runs where factors have more levels than two."""

    def __post_init__(self) -> None:
        for sentence in _faults(self):
            raise ConfigurationError(f"ablation: {sentence}")
        first_levels = {factor: next(iter(levels)) for factor, levels in self.factors.items()}
        object.__setattr__(self, "base", {**first_levels, **self.base})

    @property
    def baseline(self) -> str:
        return self.name_of(self.base)

    def design(self) -> dict[str, Levels]:
        """Return the arms by name, the base first."""
        points = self._one_factor() if self.kind == "one_factor" else self._points()
        return {self.name_of(levels): levels for levels in points}

    def arms(self) -> dict[str, tuple[str, ...]]:
        """Return each with the overrides of its levels, factor after factor."""
        return {
            arm: tuple(override for factor, level in levels.items() for override in self.factors[factor][level])
            for arm, levels in self.design().items()
        }

    def name_of(self, levels: Levels) -> str:
        """Name the arm rms_norm+post, or, with one factor at a time, base and rms_norm; the factor is added if levels
        share names."""
        own = [level for each in self.factors.values() for level in each]
        unique = len(set(own)) == len(own) and BASE not in own
        displayed = {factor: level if unique else f"{factor}-{level}" for factor, level in levels.items()}
        if self.kind == "one_factor":
            moved = [displayed[factor] for factor, level in levels.items() if level != self.base[factor]]
            return "+".join(moved) or BASE
        return "+".join(displayed.values())

    def _one_factor(self) -> Iterator[Levels]:
        yield self.base
        for factor, levels in self.factors.items():
            yield from ({**self.base, factor: level} for level in levels if level != self.base[factor])

    def _points(self) -> list[Levels]:
        """Levels as whole numbers, 0 the base's, so that the base is the first of every design."""
        ordered = {
            factor: [self.base[factor], *(level for level in levels if level != self.base[factor])]
            for factor, levels in self.factors.items()
        }
        counts = [len(levels) for levels in ordered.values()]
        if self.kind == "factorial":
            rows = [tuple(row) for row in product(*map(range, counts))]
        elif self.combinations is not None:
            rows = balanced_fraction(counts, self.combinations)
        else:
            rows = regular_fraction(list(self.factors), self.resolution or 4)
        return [
            {factor: levels[index] for (factor, levels), index in zip(ordered.items(), row, strict=True)}
            for row in rows
        ]


def _faults(ablation: Ablation) -> Iterator[str]:
    factors, fractional = ablation.factors, ablation.kind == "fractional"
    if not factors:
        yield "factors is empty: name one or more, each with two levels or more"
    for factor, levels in factors.items():
        if len(levels) < 2:
            yield f"the factor {factor} has the levels {show(list(levels))}: give two or more"
    for factor, level in ablation.base.items():
        if factor not in factors:
            yield unknown(f"base names {factor}, which is not a factor", factor, list(factors))
        if level not in factors[factor]:
            yield unknown(f"base.{factor}={level} is not a level of {factor}", level, list(factors[factor]))
    if math.prod(map(len, factors.values())) > MOST and ablation.kind != "one_factor":
        yield f"the factors have more than {MOST} combinations: remove factors or levels, or set kind: one_factor"
    for name in ("resolution", "combinations"):
        if getattr(ablation, name) is not None and not fractional:
            yield f"{name}={getattr(ablation, name)} is of fractional designs, and kind={ablation.kind}: remove it"
    if fractional:
        yield from _fraction_faults(ablation)


def _fraction_faults(ablation: Ablation) -> Iterator[str]:
    counts = [len(levels) for levels in ablation.factors.values()]
    if ablation.combinations is None:
        larger = [factor for factor, levels in ablation.factors.items() if len(levels) > 2]
        if larger:
            yield (
                f"the factor {larger[0]} has more than two levels: set combinations: N, how many to run of "
                f"{math.prod(counts)}, from {1 + sum(counts) - len(counts)} on"
            )
        if len(counts) < 3:
            yield "a fraction needs three factors or more: set kind: factorial"
        if ablation.resolution not in (None, 3, 4, 5):
            yield f"resolution={ablation.resolution} is refused: it must be 3, 4 or 5"
        return
    if ablation.resolution is not None:
        yield "resolution and combinations exclude each other: remove one"
    fewest = 1 + sum(counts) - len(counts)
    if not fewest <= ablation.combinations <= math.prod(counts):
        yield (
            f"combinations={ablation.combinations} is refused: {fewest} at least, as many as there are effects to "
            f"estimate, and {math.prod(counts)} at most"
        )


MADE = ("arms", "baseline")
"""Fields that a study with an ablation may leave to it."""


def with_its_arms(values: Mapping[str, Any], ablation: Ablation) -> dict[str, Any]:
    """Return the fields of the study; its baseline is the base of the ablation unless it names another."""
    own, made = values.get("arms", {}), ablation.arms()
    for arm in own:
        if arm in made:
            raise ConfigurationError(f"arms has {arm}, which the ablation makes: remove it, or name it differently")
    return {"baseline": ablation.baseline, **values, "arms": {**made, **own}}


_REQUIRED = ("kind", "factors")


def _level(value: Any) -> str:
    """YAML reads the names 1, on and off as a number, true and false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class _ByLevel(Kind):
    """A mapping whose keys are names of levels."""

    item: Kind

    def read(self, value: Any) -> dict[str, Any]:
        named = by_name((_level(key), entry) for key, entry in value.items()) if isinstance(value, Mapping) else value
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
    "factors": MappingOf(_ByLevel(ListOf(TextKind()))),
    "base": MappingOf(_LevelName()),
    "resolution": WholeNumber(),
    "combinations": WholeNumber(),
}


@dataclass(frozen=True)
class AblationField(Kind):
    """Every key known; what is wrong is reported with the key that holds it."""

    def read(self, value: Any) -> Ablation:
        if not isinstance(value, dict):
            raise self.refuse()
        for key in value:
            if key not in _PARTS:
                raise ConfigurationError(unknown(f"{key} is not a field of ablation", str(key), list(_PARTS)))
        for key in _REQUIRED:
            if key not in value:
                raise ConfigurationError(f"ablation has no {key}: it needs {' and '.join(_REQUIRED)}")
        parts = {key: _read(key, entry) for key, entry in value.items()}
        factors = {
            factor: {level: tuple(overrides) for level, overrides in levels.items()}
            for factor, levels in parts.pop("factors").items()
        }
        return Ablation(factors=factors, **parts)

    def wants(self) -> str:
        return "a mapping of kind, factors, base, resolution and combinations"


def _read(key: str, value: Any) -> Any:
    try:
        return _PARTS[key].read(value)
    except MismatchError as mismatch:
        raise ConfigurationError(f"ablation.{key}={show(value)} is refused: it must be {mismatch}") from None
