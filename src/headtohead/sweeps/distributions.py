"""Define the values of a sweep's parameter, or their distribution by its quantiles, under W&B's names.

A quantile turns any number drawn evenly from 0 to 1 into a value: random and Bayesian search need no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import NormalDist

from headtohead.comparison.analyses.trials import (
    Dimension,
    Value,
    ValueChoices,
    ValueRange,
    without_repetition,
    written,
)

_EDGE = 1e-6
"""The distance that a probability keeps from 0 and 1, where some distributions have no value."""
_DIGITS = 4
"""The digits of a drawn number: one that a person can read."""
_MOST_POINTS = 1000
"""The most points of one parameter on a grid."""
Figures = Mapping[str, float]
Curve = Callable[[Figures, float], float]
"""The quantile at a chance."""


def _uniform(figures: Figures, chance: float) -> float:
    return figures["min"] + (figures["max"] - figures["min"]) * chance


def _between_logs(figures: Figures, chance: float) -> float:
    value: float = figures["min"] * (figures["max"] / figures["min"]) ** chance
    return value


def _normal(figures: Figures, chance: float) -> float:
    return figures["mu"] + figures["sigma"] * NormalDist().inv_cdf(min(max(chance, _EDGE), 1 - _EDGE))


def _beta(figures: Figures, chance: float) -> float:
    from scipy.special import betaincinv

    return float(betaincinv(figures["a"], figures["b"], chance))


BOUNDS: Mapping[str, float | None] = {"min": None, "max": None}
_MOMENTS: Mapping[str, float | None] = {"mu": 0.0, "sigma": 1.0}
CURVES: Mapping[str, tuple[Curve, Mapping[str, float | None]]] = {
    "uniform": (_uniform, BOUNDS),
    "log_uniform": (lambda options, chance: math.exp(_uniform(options, chance)), BOUNDS),
    "log_uniform_values": (_between_logs, BOUNDS),
    "inv_log_uniform": (lambda options, chance: math.exp(-_uniform(options, 1 - chance)), BOUNDS),
    "inv_log_uniform_values": (_between_logs, BOUNDS),
    "normal": (_normal, _MOMENTS),
    "log_normal": (lambda options, chance: math.exp(_normal(options, chance)), _MOMENTS),
    "beta": (_beta, {"a": 1.0, "b": 1.0}),
}
"""The curves by W&B's name: the quantile, and the figures that it takes with their defaults."""
QUANTISED = ("uniform", "log_uniform", "log_uniform_values", "normal", "log_normal", "beta")
"""Those that have a form with q_ before the name: the values are multiples of q."""


@dataclass(frozen=True)
class WeightedValues:
    """One of some values, each as probable as its weight."""

    values: tuple[Value, ...]
    weights: tuple[float, ...] = ()
    """The weights; None means all alike."""

    @property
    def words(self) -> str:
        return ValueChoices(self.values).words if len(self.values) > 1 else written(self.values[0])

    @property
    def points(self) -> tuple[Value, ...]:
        return without_repetition(self.values)

    @property
    def dimension(self) -> Dimension:
        """Return the dimension for Bayesian search."""
        return ValueChoices(self.points)

    def at(self, chance: float) -> Value:
        ends = list(accumulate(self.weights or (1.0,) * len(self.values)))
        index = sum(end <= chance * ends[-1] for end in ends)
        return self.values[min(index, len(self.values) - 1)]

    def value_at(self, value: Value) -> Value:
        """Return the parameter's value for one chosen by Bayesian search."""
        return value


@dataclass(frozen=True)
class QuantileDistribution:
    """Numbers by a distribution."""

    name: str
    """int_uniform, or one of CURVES, q_ before it where the values are multiples of q."""
    figures: Figures = field(hash=False)

    @property
    def words(self) -> str:
        return f"{self.name} {', '.join(f'{name} {value:g}' for name, value in self.figures.items())}"

    @property
    def points(self) -> tuple[Value, ...] | None:
        """Return the grid's points, which are steps from the lower bound on, or None if there are too many."""
        step = 1.0 if self.name == "int_uniform" else self.figures["q"] if self.name == "q_uniform" else None
        if step is None or (self.figures["max"] - self.figures["min"]) / step >= _MOST_POINTS:
            return None
        count = math.floor((self.figures["max"] - self.figures["min"]) / step + _EDGE)
        values = (float(f"{self.figures['min'] + step * index:.12g}") for index in range(count + 1))
        is_whole = step.is_integer() and self.figures["min"].is_integer()
        return tuple(map(int, values)) if is_whole else tuple(values)

    @property
    def dimension(self) -> Dimension:
        """Return the dimension for Bayesian search: whole numbers, or a quantile."""
        if self.name == "int_uniform":
            return ValueRange(self.figures["min"], self.figures["max"], kind="int")
        return ValueRange(0.0, 1.0)

    def at(self, chance: float) -> Value:
        if self.name == "int_uniform":
            low, high = int(self.figures["min"]), int(self.figures["max"])
            return min(low + int(chance * (high - low + 1)), high)
        curve, _ = CURVES[self.name.removeprefix("q_")]
        value = curve(self.figures, chance)
        if self.name.startswith("q_"):
            return self._multiple(value, self.figures["q"])
        return self._within(float(f"{value:.{_DIGITS}g}"))

    def value_at(self, value: Value) -> Value:
        """Return the parameter's value for one chosen by Bayesian search."""
        return value if self.name == "int_uniform" or not isinstance(value, int | float) else self.at(float(value))

    def _multiple(self, value: float, step: float) -> Value:
        near = round(value / step) * step
        return int(near) if float(step).is_integer() else float(f"{near:.12g}")

    def _within(self, value: float) -> float:
        """Rounding leads over no edge."""
        if self.name not in ("uniform", "log_uniform_values", "inv_log_uniform_values"):
            return value
        return min(max(value, self.figures["min"]), self.figures["max"])


Distribution = WeightedValues | QuantileDistribution
