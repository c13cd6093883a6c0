"""Laws over many cases of which the gate tries some, and `make laws-long` all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """Return the cases as parameters, of which all but each so manieth one are `whole`."""
    return [case if index % step == 0 else _whole(case) for index, case in enumerate(cases)]


def diagonal(*axes: Sequence[Any], names: Any = str) -> list[Any]:
    """Return all combinations of the axes as parameters; those in which every case of every axis meets one case of the
    others are of the gate, the rest is `whole`."""
    most = max(map(len, axes))
    met = {tuple(index % len(axis) for axis in axes) for index in range(most)}
    return [
        pytest.param(
            *(axis[number] for axis, number in zip(axes, numbers, strict=True)),
            marks=() if numbers in met else pytest.mark.whole,
            id="-".join(names(axis[number]) for axis, number in zip(axes, numbers, strict=True)),
        )
        for numbers in product(*(range(len(axis)) for axis in axes))
    ]


def _whole(case: Any) -> Any:
    if hasattr(case, "marks"):
        return pytest.param(*case.values, id=case.id, marks=(*case.marks, pytest.mark.whole))
    return pytest.param(case, marks=pytest.mark.whole)
