"""The shape, or the number of steps, that brings one arm to a target: one move alone if that is enough, else two.

Every look builds the model without memory and reads its ledger: no formula stands between a shape and its cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from headtohead.building import compatibility
from headtohead.studying.matching.budgets import Budget, Move
from headtohead.studying.matching.costing import CostedRun
from headtohead.studying.matching.dials import CannotMoveError, Setting, dial_of, with_setting
from headtohead.studying.matching.search import mismatch, ranked

COARSE_TO_FINE: tuple[Move, ...] = ("depth", "width", "head_size", "feedforward", "steps")
OUTER_SETTINGS = 5
"""Of the coarser of two moves: those nearest to the target, so that the finer one has little left to do."""


@dataclass(frozen=True)
class Shape:
    """A setting, and the figure that it leads to."""

    setting: Setting
    value: float


class Shaper:
    """The looks at one arm, each taken once."""

    def __init__(self, run: CostedRun, budget: Budget, target: float) -> None:
        self._run, self._budget, self._target = run, budget, target
        self._values: dict[tuple[tuple[str, float], ...], float | None] = {}
        self.cannot: dict[Move, str] = {}
        """The moves that this arm does not have, and why."""
        self.has_pairs = False
        """Whether two moves were tried together."""

    @property
    def num_looks(self) -> int:
        return len(self._values)

    def nearest(self, moves: Sequence[Move]) -> Shape:
        """The first that meets the budget: as it is written, by one move in the order given, by two; else the nearest
        of all that were looked at."""
        best: Shape | None = None
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

    def _candidates(self, moves: Sequence[Move]) -> Iterator[Shape]:
        yield Shape({}, self._budget.of(self._run))
        alone: dict[Move, list[Shape]] = {}
        for move in moves:
            alone[move] = self._turned(move, {})
            yield from alone[move][:1]
        for coarse, fine in combinations(sorted(moves, key=COARSE_TO_FINE.index), 2):
            if (coarse, fine) != ("width", "head_size"):  # the same field
                for shape in alone[coarse][:OUTER_SETTINGS]:
                    self.has_pairs = True
                    yield from self._turned(fine, shape.setting)[:1]

    def _turned(self, move: Move, given: Setting) -> list[Shape]:
        """The settings of one move on top of what is given, the nearest first."""
        try:
            dial = dial_of(move, with_setting(self._run.config, given))
        except CannotMoveError as error:
            self.cannot[move] = str(error)
            return []

        def value(index: int) -> float | None:
            return self._value({**given, **dial.at(index)})

        shapes = []
        for index in ranked(value, self._target, count=dial.count, start=dial.start):
            found = value(index)
            assert found is not None, "only what can be built is ranked"
            shapes.append(Shape({**given, **dial.at(index)}, found))
        return shapes

    def _value(self, setting: Setting) -> float | None:
        key = tuple(sorted(setting.items()))
        if key not in self._values:
            try:
                self._values[key] = self._budget.of(self.run_of(setting))
            except ValueError:
                self._values[key] = None
        return self._values[key]

    def _misses(self, shape: Shape) -> float:
        return mismatch(shape.value, self._target)
