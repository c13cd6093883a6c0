"""The shape, or the number of steps, that brings one arm to a target: one move alone if that is enough, else two.

Every look builds the model without memory and reads its ledger: no formula stands between a shape and its cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from headtohead.config.rules import compatibility
from headtohead.estimates.run_cost import CostedRun
from headtohead.studies.matching.budgets import Budget, SizeAxisName
from headtohead.studies.matching.size_axes import CannotResizeError, Setting, axis_of, with_setting

COARSE_TO_FINE: tuple[SizeAxisName, ...] = ("depth", "width", "head_size", "feedforward", "steps")
OUTER_SETTINGS = 5
"""The number of settings of the coarser of two moves that are tried: those nearest to the target, so that the finer one
has little left to do."""


@dataclass(frozen=True)
class ArmShape:
    """A setting, and the figure that it leads to."""

    setting: Setting
    value: float


class ShapeSearch:
    """The looks at one arm, each taken once."""

    def __init__(self, run: CostedRun, budget: Budget, target: float) -> None:
        self._run, self._budget, self._target = run, budget, target
        self._values: dict[tuple[tuple[str, float], ...], float | None] = {}
        self.cannot: dict[SizeAxisName, str] = {}
        """The moves that this arm does not have, and why."""
        self.has_pairs = False
        """Whether two moves were tried together."""

    @property
    def num_evaluations(self) -> int:
        return len(self._values)

    def nearest(self, moves: Sequence[SizeAxisName]) -> ArmShape:
        """Return the first that meets the budget: as it is written, by one move in the order given, by two; else the
        nearest of all that were looked at."""
        best: ArmShape | None = None
        for shape in self._candidates(moves):
            if self.meets(shape.value):
                return shape
            if best is None or self._misses(shape) < self._misses(best):
                best = shape
        assert best is not None, "an arm as it is written can be built"
        return best

    def meets(self, value: float) -> bool:
        return mismatch(value, self._target) <= self._budget.tolerance

    def run_of(self, setting: Setting) -> CostedRun:
        """Raises ValueError where it cannot be built."""
        config = with_setting(self._run.config, setting)
        compatibility.check(config)
        return self._run.changed(config)

    def _candidates(self, moves: Sequence[SizeAxisName]) -> Iterator[ArmShape]:
        yield ArmShape({}, self._budget.of(self._run))
        alone: dict[SizeAxisName, list[ArmShape]] = {}
        for move in moves:
            alone[move] = self._turned(move, {})
            yield from alone[move][:1]
        for coarse, fine in combinations(sorted(moves, key=COARSE_TO_FINE.index), 2):
            if (coarse, fine) != ("width", "head_size"):  # the same field
                for shape in alone[coarse][:OUTER_SETTINGS]:
                    self.has_pairs = True
                    yield from self._turned(fine, shape.setting)[:1]

    def _turned(self, move: SizeAxisName, setting: Setting) -> list[ArmShape]:
        """The settings of one move on top of what is given, the nearest first."""
        try:
            axis = axis_of(move, with_setting(self._run.config, setting))
        except CannotResizeError as error:
            self.cannot[move] = str(error)
            return []

        def value(index: int) -> float | None:
            return self._value({**setting, **axis.at(index)})

        shapes = []
        for index in ranked(value, self._target, count=axis.count, start=axis.start):
            result = value(index)
            assert result is not None, "only what can be built is ranked"
            shapes.append(ArmShape({**setting, **axis.at(index)}, result))
        return shapes

    def _value(self, setting: Setting) -> float | None:
        key = tuple(sorted(setting.items()))
        if key not in self._values:
            try:
                self._values[key] = self._budget.of(self.run_of(setting))
            except ValueError:
                self._values[key] = None
        return self._values[key]

    def _misses(self, shape: ArmShape) -> float:
        return mismatch(shape.value, self._target)


GROWTH = 1.6
"""The growth from one probe to the next: some twenty reach from 1 to 10,000."""
NEIGHBOURS = 3
FAR = 4.0
"""Times the target: twice in a row beyond it, and larger settings are not looked at."""

Value = Callable[[int], float | None]
"""The figure at a setting; None where it cannot be built."""


def ranked(value: Value, target: float, *, count: int, start: int) -> list[int]:
    """Settings that were looked at and can be built, the nearest to the target first; of equals, the one nearest to
    the start."""
    seen: dict[int, float] = {}
    impossible: set[int] = set()

    def evaluate(index: int) -> float | None:
        if index not in seen and index not in impossible:
            result = value(index)
            if result is None:
                impossible.add(index)
            else:
                seen[index] = result
        return seen.get(index)

    _probe(evaluate, target, count=count, start=start)
    for low, high in _crossings(seen, target):
        _halve(evaluate, target, low, high)
    for index in sorted(seen, key=lambda index: mismatch(seen[index], target))[:2]:
        for neighbour in range(max(0, index - NEIGHBOURS), min(count, index + NEIGHBOURS + 1)):
            evaluate(neighbour)
    return sorted(seen, key=lambda index: (mismatch(seen[index], target), abs(index - start)))


def mismatch(value: float, target: float) -> float:
    """Return the share of the target by which a figure misses it."""
    return abs(value / target - 1)


def _probe(evaluate: Value, target: float, *, count: int, start: int) -> None:
    """The start, and ever further from the smallest, until figures are far beyond the target."""
    evaluate(start)
    beyond = 0
    for index in _spread(count):
        cost = evaluate(index)
        beyond = beyond + 1 if cost is not None and cost > FAR * target else 0
        if beyond == 2:
            return


def _spread(count: int) -> Iterator[int]:
    index = 0
    while index < count - 1:
        yield index
        index = max(index + 1, math.ceil(index * GROWTH))
    yield count - 1


def _crossings(seen: dict[int, float], target: float) -> list[tuple[int, int]]:
    """Neighbouring probes between which the target lies."""
    indices = sorted(seen)
    return [(low, high) for low, high in pairwise(indices) if (seen[low] - target) * (seen[high] - target) <= 0]


def _halve(evaluate: Value, target: float, low: int, high: int) -> None:
    """Halve the range until the target lies between two settings with none in between that can be built."""
    below = (evaluate(low) or 0) < target
    while high - low > 1:
        result = _middle(evaluate, low, high)
        if result is None:
            return
        middle, value = result
        if (value < target) == below:
            low = middle
        else:
            high = middle


def _middle(evaluate: Value, low: int, high: int) -> tuple[int, float] | None:
    """The setting nearest to the middle that can be built."""
    middle = (low + high) // 2
    for distance in range(min(high - low, 2 * NEIGHBOURS)):
        for index in (middle - distance, middle + distance):
            if low < index < high and (value := evaluate(index)) is not None:
                return index, value
    return None
