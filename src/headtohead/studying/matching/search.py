"""Which setting of a dial comes nearest to a target, where every look costs and the figures need not grow steadily."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

GROWTH = 1.6
"""Of the place of a probe against the one before it: some twenty reach from 1 to 10,000."""
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

    def look(index: int) -> float | None:
        if index not in seen and index not in impossible:
            found = value(index)
            if found is None:
                impossible.add(index)
            else:
                seen[index] = found
        return seen.get(index)

    _probe(look, target, count=count, start=start)
    for low, high in _crossings(seen, target):
        _halve(look, target, low, high)
    for index in sorted(seen, key=lambda index: mismatch(seen[index], target))[:2]:
        for neighbour in range(max(0, index - NEIGHBOURS), min(count, index + NEIGHBOURS + 1)):
            look(neighbour)
    return sorted(seen, key=lambda index: (mismatch(seen[index], target), abs(index - start)))


def mismatch(value: float, target: float) -> float:
    """The share of the target by which a figure misses it."""
    return abs(value / target - 1)


def _probe(look: Value, target: float, *, count: int, start: int) -> None:
    """The start, and ever further from the smallest, until figures are far beyond the target."""
    look(start)
    beyond = 0
    for index in _spread(count):
        found = look(index)
        beyond = beyond + 1 if found is not None and found > FAR * target else 0
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
    places = sorted(seen)
    return [(low, high) for low, high in pairwise(places) if (seen[low] - target) * (seen[high] - target) <= 0]


def _halve(look: Value, target: float, low: int, high: int) -> None:
    """Until the target lies between two settings with none in between that can be built."""
    below = (look(low) or 0) < target
    while high - low > 1:
        found = _middle(look, low, high)
        if found is None:
            return
        middle, value = found
        if (value < target) == below:
            low = middle
        else:
            high = middle


def _middle(look: Value, low: int, high: int) -> tuple[int, float] | None:
    """The setting nearest to the middle that can be built."""
    middle = (low + high) // 2
    for distance in range(min(high - low, 2 * NEIGHBOURS)):
        for index in (middle - distance, middle + distance):
            if low < index < high and (value := look(index)) is not None:
                return index, value
    return None
