"""These ranges of numbers annotate the arguments they restrict: `d_model: Width`.

The range of a single argument stands in its annotation; these names are for kinds of numbers that several arguments
share. The configuration's checks read them from the annotation, so that a number out of range is refused before
anything is built. An upper end is where a typing error is certain; memory is compared with the machine's elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_type_hints


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; `above` leaves out the lower end, `below` the upper, `only` all others."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    below: bool = False
    only: Literal["odd", "even", "powers of two"] | None = None

    def holds(self, value: float) -> bool:
        """Return whether the number is in the range."""
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if self.only is not None and not _ONLY[self.only].holds(int(value)):
            return False
        over = value > self.low if self.above else value >= self.low
        return over and (value < self.high if self.below else value <= self.high)

    def wants(self) -> str:
        """Return the range in words: "at least 1 and at most 64"."""
        only = "" if self.only is None else f"{_ONLY[self.only].words}, "
        low = f"{only}{'above' if self.above else 'at least'} {_shown(self.low)}"
        high = f"{'below' if self.below else 'at most'} {_shown(self.high)}"
        if math.isinf(self.high):
            return low
        return f"{only}{high}" if math.isinf(self.low) else f"{low} and {high}"


@dataclass(frozen=True)
class _Only:
    """Some of the whole numbers, in words and by a test."""

    words: str
    holds: Callable[[int], bool]


_ONLY: Mapping[str, _Only] = {
    "odd": _Only("an odd number", lambda number: number % 2 == 1),
    "even": _Only("an even number", lambda number: number % 2 == 0),
    "powers of two": _Only("a power of two", lambda number: number > 0 and number & (number - 1) == 0),
}
ANY = Range()


@dataclass(frozen=True)
class Filled:
    """A list with at least one entry."""


def range_of(annotation: Any) -> Range | None:
    """Return the range in an annotation, also in that of a value that may be None."""
    inner = (item for option in get_args(annotation) for item in (option, *getattr(option, "__metadata__", ())))
    return next((item for item in inner if isinstance(item, Range)), None)


def out_of_range(record: object) -> str | None:
    """Return what is wrong with the first field of a dataclass that is out of the range in its annotation."""
    for name, annotation in get_type_hints(type(record), include_extras=True).items():
        value, limit = getattr(record, name), range_of(annotation)
        if limit is not None and value is not None and not limit.holds(value):
            return f"{name}={value} must be {limit.wants()}"
    return None


def _shown(number: float) -> str:
    """Write a whole number with all its digits, and any other number briefly."""
    return str(number) if isinstance(number, int) else f"{number:g}"


# Sizes of a model
Width = Annotated[int, Range(1, 1_048_576)]
"""Features, heads, channels, kernels, buckets."""
OddWidth = Annotated[int, Range(1, 1_048_575, only="odd")]
"""Kernels that have a middle."""
Depth = Annotated[int, Range(1, 1_024)]
"""Layers, one after another."""
Length = Annotated[int, Range(1, 16_777_216)]
"""Tokens of a row, pixels of a side, distances between tokens."""
Vocabulary = Annotated[int, Range(1, 16_777_216)]
"""Tokens or classes to choose from."""
Symbols = Annotated[int, Range(2, 16_777_216)]
"""Tokens to choose from, of which a single one would tell nothing."""
Multiple = Annotated[float, Range(0.0, 1_024.0, above=True)]
"""A width as a multiple of another."""

# Amounts
Rows = Annotated[int, Range(1, 1_000_000_000)]
"""Rows of a split."""
BatchSize = Annotated[int, Range(1, 1_048_576)]
"""Rows or parts of a step."""
Count = Annotated[int, Range(1, 1_000_000)]
"""Things of which there is at least one."""
Amount = Annotated[int, Range(0, 1_000_000)]
"""Things of which there may be none."""
Beams = Annotated[int, Range(1, 1_024)]
"""Texts that a search keeps side by side."""
Samples = Annotated[int, Range(1, 65_536)]
"""Texts for each prompt."""
Limit = Annotated[int, Range(0, 1_000_000_000)]
"""The first so many things, or 0 for all of them."""
Port = Annotated[int, Range(0, 65_535)]
"""A port of this machine, or 0 for any free one."""
TokenId = Annotated[int, Range(0, 16_777_215)]
"""The number of a token in a vocabulary."""
Tokens = Annotated[float, Range(1.0, 1e18)]
"""The length of a whole run."""
Every = Annotated[int, Range(1, 1_000_000_000)]
"""Steps, epochs or validations between two events."""

# Machines
Threads = Annotated[int, Range(1, 1_024)]
Devices = Annotated[int, Range(1, 65_536)]
Seconds = Annotated[float, Range(0.0, 31_536_000.0, above=True)]
"""A duration of at most a year."""


# Plain numbers
Seed = Annotated[int, Range(0, 4_294_967_295)]
Positive = Annotated[float, Range(0.0, above=True)]
Temperature = Annotated[float, Range(0.0, 1_000_000.0)]
NotNegative = Annotated[float, Range(0.0)]
Probability = Annotated[float, Range(0.0, 1.0, below=True)]
"""A share that leaves something over."""
Fraction = Annotated[float, Range(0.0, 1.0)]
Share = Annotated[float, Range(0.0, 1.0, above=True)]
"""A share of something, and not of nothing."""
ShareLeavingSome = Annotated[float, Range(0.0, 1.0, above=True, below=True)]
"""A share of something, and not of all of it."""
AtLeastOne = Annotated[float, Range(1.0)]
Real = Annotated[float, Range(-1e30, 1e30)]
"""Any number, either side of zero."""
