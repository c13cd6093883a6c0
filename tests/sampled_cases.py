"""Laws over many cases of which the gate tries some, and `make laws-long` all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest


def diagonal(*axes: Sequence[Any], names: Callable[[Any], str] = str) -> list[Any]:
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
