"""The verdict of a contrast that stands alone, as a family of one has it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from headtohead.comparison.contrasts import Contrast, Registration, Values, Verdict
from headtohead.comparison.verdicts.verdict import verdicts_of


def verdict_of(
    values: Values,
    contrast: Contrast,
    direction: Literal["min", "max"],
    margin: float | None = None,
    registered_seeds: Collection[int] | None = None,
) -> Verdict:
    """Return the only verdict of the family that holds this contrast."""
    registration = Registration(direction, margin=margin, seeds=registered_seeds)
    (verdict,) = verdicts_of(values, [contrast], registration)
    return verdict
