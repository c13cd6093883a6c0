"""Laws over many cases of which the gate tries some, and `make laws-long` all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
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


def leave_the_rest_to_the_long_laws(items: list[pytest.Item]) -> None:
    """Mark `whole` what is beyond the number that `sampled` gives, of the cases of each test that carries it.

    Steps of the golden ratio meet the values of every axis of a product about equally often.
    """
    laws: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("whole"):
            laws.setdefault((item.path, item.nodeid.partition("[")[0]), []).append(item)
    for cases in laws.values():
        marker = cases[0].get_closest_marker("sampled")
        assert marker is not None
        for index in set(range(len(cases))) - spread(len(cases), marker.args[0]):
            cases[index].add_marker("whole")


def spread(of_so_many: int, number: int) -> set[int]:
    """Return so many indices out of a range, apart by steps of the golden ratio."""
    return set(sorted(range(of_so_many), key=lambda index: index * 0.6180339887 % 1)[:number])
