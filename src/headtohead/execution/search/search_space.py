"""Turn a space into settings: points on its grid, or draws that depend on their number alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count, product
from zlib import crc32

from headtohead.comparison.analyses.trials import Dimension, Setting, Space, Value, ValueChoices, ValueRange

_FEW, _FACTOR_OF_FEW, _FACTOR = 5, math.sqrt(10), 2.0


def around(centre: float, trials: int) -> ValueChoices:
    """So many values, the centre one of them: a factor of 2 apart, few values a factor of sqrt(10)."""
    factor = _FACTOR_OF_FEW if trials <= _FEW else _FACTOR
    steps = range(-(trials // 2), trials - trials // 2)
    return ValueChoices(tuple(centre if step == 0 else _rounded(centre * factor**step) for step in steps))


def between(values: ValueChoices) -> ValueRange:
    """Return all from the lowest to the highest, for drawing from."""
    return ValueRange(min(values.numbers), max(values.numbers), "log")


def on_grid(space: Space) -> list[Setting]:
    """Return every combination, the last field moving first."""
    points = [[(key, value) for value in _points(dimension)] for key, dimension in space.items()]
    return [Setting(fields) for fields in product(*points)]


def random_settings(space: Space, seed: int) -> Iterator[Setting]:
    """Different ones without end, for all arms the same; asking for more leaves the first as they are."""
    seen: set[Setting] = set()
    for number in count():
        setting = Setting(tuple((key, _draw(dim, uniform_draw(seed, number, key))) for key, dim in space.items()))
        if setting not in seen:
            seen.add(setting)
            yield setting


def size_of(space: Space) -> float:
    """Return how many settings there are; infinity if a field may have any number."""
    return math.prod(_size(dimension) for dimension in space.values())


def rounded_value(dimension: ValueRange, value: float) -> Value:
    """A number one can read, within the bounds."""
    if dimension.kind == "int":
        return min(max(round(value), int(dimension.low)), int(dimension.high))
    if dimension.scale == "log":
        near = _rounded(value)
    else:
        near = round(value, 3 - math.floor(math.log10(dimension.high - dimension.low)))
    return min(max(near, dimension.low), dimension.high)


def _size(dimension: Dimension) -> float:
    if isinstance(dimension, ValueChoices):
        return len(dimension.values)
    return dimension.high - dimension.low + 1 if dimension.kind == "int" else math.inf


def _points(dimension: Dimension) -> Sequence[Value]:
    if isinstance(dimension, ValueChoices):
        return dimension.values
    last = (dimension.points or 1) - 1
    return list(dict.fromkeys(_at(dimension, index / last) for index in range(last + 1)))


def _draw(dimension: Dimension, part: float) -> Value:
    if isinstance(dimension, ValueChoices):
        return dimension.values[int(part * len(dimension.values))]
    return _at(dimension, part)


def _at(dimension: ValueRange, part: float) -> Value:
    """So far on the way from low to high."""
    low, high = dimension.low, dimension.high
    return rounded_value(
        dimension, low * (high / low) ** part if dimension.scale == "log" else low + (high - low) * part
    )


def uniform_draw(seed: int, number: int, key: str) -> float:
    """Drawn evenly from 0 to 1, for this place alone."""
    import numpy as np

    return float(np.random.default_rng((seed, number, crc32(key.encode()))).random())


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
