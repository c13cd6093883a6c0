"""The factors of an ablation, their levels, and the arms that a design makes of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, get_args

from headtohead.building.errors import ConfigurationError, show, unknown
from headtohead.studying.ablation.balanced import balanced_fraction
from headtohead.studying.ablation.regular import regular_fraction

Design = Literal["one_factor", "factorial", "fractional"]
DESIGNS: tuple[Design, ...] = get_args(Design)
Levels = Mapping[str, str]
"""By factor, the level that one arm has of it."""
BASE = "base"
MOST = 2000
"""Combinations that a design is chosen from: more would be no study anyway."""


@dataclass(frozen=True)
class Ablation:
    """What is varied, around what, and how many of the combinations are run."""

    kind: Design
    factors: Mapping[str, Mapping[str, tuple[str, ...]]]
    """By factor and level the overrides that make it."""
    base: Levels = field(default_factory=dict)
    """What everything is compared with; the first level of each factor it does not name."""
    resolution: int | None = None
    """Of a fraction of two-level factors: at 4 no main effect hides behind an interaction of two, at 5 nor do these."""
    combinations: int | None = None
    """How many a fraction runs where factors have more levels than two."""

    def __post_init__(self) -> None:
        for sentence in _faults(self):
            raise ConfigurationError(f"ablation: {sentence}")
        firsts = {factor: next(iter(levels)) for factor, levels in self.factors.items()}
        object.__setattr__(self, "base", {**firsts, **self.base})

    @property
    def baseline(self) -> str:
        return self.name_of(self.base)

    def design(self) -> dict[str, Levels]:
        """The arms by name, the base first."""
        points = self._one_factor() if self.kind == "one_factor" else self._points()
        return {self.name_of(levels): levels for levels in points}

    def arms(self) -> dict[str, tuple[str, ...]]:
        """Each with the overrides of its levels, factor after factor."""
        return {
            arm: tuple(override for factor, level in levels.items() for override in self.factors[factor][level])
            for arm, levels in self.design().items()
        }

    def name_of(self, levels: Levels) -> str:
        """rms_norm+post, or one factor at a time base and rms_norm; with the factor where levels share names."""
        own = [level for each in self.factors.values() for level in each]
        unique = len(set(own)) == len(own) and BASE not in own
        shown = {factor: level if unique else f"{factor}-{level}" for factor, level in levels.items()}
        if self.kind == "one_factor":
            moved = [shown[factor] for factor, level in levels.items() if level != self.base[factor]]
            return "+".join(moved) or BASE
        return "+".join(shown.values())

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
            {factor: levels[place] for (factor, levels), place in zip(ordered.items(), row, strict=True)}
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
            yield unknown(f"base names {factor}, which is no factor", factor, list(factors))
        if level not in factors[factor]:
            yield unknown(f"base.{factor}={level} is no level of {factor}", level, list(factors[factor]))
    if math.prod(map(len, factors.values())) > MOST and ablation.kind != "one_factor":
        yield f"the factors have more than {MOST} combinations: take factors or levels out, or set kind: one_factor"
    for name in ("resolution", "combinations"):
        if getattr(ablation, name) is not None and not fractional:
            yield f"{name}={getattr(ablation, name)} is of fractional designs, and kind={ablation.kind}: take it out"
    if fractional:
        yield from _fraction_faults(ablation)


def _fraction_faults(ablation: Ablation) -> Iterator[str]:
    counts = [len(levels) for levels in ablation.factors.values()]
    if ablation.combinations is None:
        larger = [factor for factor, levels in ablation.factors.items() if len(levels) > 2]
        if larger:
            yield (
                f"the factor {larger[0]} has more than two levels: say with combinations: N how many to run of "
                f"{math.prod(counts)}, from {1 + sum(counts) - len(counts)} on"
            )
        if len(counts) < 3:
            yield "a fraction needs three factors or more: set kind: factorial"
        if ablation.resolution not in (None, 3, 4, 5):
            yield f"resolution={ablation.resolution} is refused: it must be 3, 4 or 5"
        return
    if ablation.resolution is not None:
        yield "resolution and combinations exclude each other: take one out"
    fewest = 1 + sum(counts) - len(counts)
    if not fewest <= ablation.combinations <= math.prod(counts):
        yield (
            f"combinations={ablation.combinations} is refused: {fewest} at least, as many as there are effects to "
            f"estimate, and {math.prod(counts)} at most"
        )
