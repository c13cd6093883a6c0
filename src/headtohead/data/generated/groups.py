"""Finite groups as numbered elements: the cyclic ones, the symmetric ones and the alternating ones."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headtohead.data.contracts import DataError

_MOST_POINTS = 5
"""S_6 would have 720 elements, and a table of half a million products."""
_FEWEST_POINTS = {"S": 2, "A": 3}
_LARGEST_CYCLE = 10_000


@dataclass(frozen=True)
class Group:
    """Element 0 is the neutral one; `multiply` takes arrays of element numbers."""

    names: Sequence[str]
    multiply: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def __len__(self) -> int:
        return len(self.names)

    def running_products(self, elements: np.ndarray) -> np.ndarray:
        """In each row, the product of all elements up to each place."""
        products = elements.copy()
        for column in range(1, elements.shape[1]):
            products[:, column] = self.multiply(products[:, column - 1], elements[:, column])
        return products


@lru_cache(maxsize=8)
def group_named(name: str) -> Group:
    """Z_n adds modulo n; S_n are all permutations of n points, A_n the even ones."""
    match = re.fullmatch(r"([ZSA])_(\d+)", name)
    if match:
        family, size = match[1], int(match[2])
        if family == "Z" and 2 <= size <= _LARGEST_CYCLE:
            return Group([str(number) for number in range(size)], lambda first, second: (first + second) % size)
        if family != "Z" and _FEWEST_POINTS[family] <= size <= _MOST_POINTS:
            return permutation_group(size, even_only=family == "A")
    raise DataError(
        f"data.group={name} is no group known here: choose Z_n with n from 2 to {_LARGEST_CYCLE} (Z_2 is parity), S_n "
        f"with n from 2 to {_MOST_POINTS}, or A_n with n from 3 to {_MOST_POINTS}."
    )


def permutation_group(num_points: int, *, even_only: bool) -> Group:
    """Elements are named by where they send 1, 2, 3 ...; in a product the left factor acts first."""
    elements = np.array([p for p in itertools.permutations(range(num_points)) if not (even_only and _is_odd(p))])
    powers = num_points ** np.arange(num_points)
    codes = elements @ powers
    order = np.argsort(codes)
    # The left factor sends i to elements[a, i], and the right one that to elements[b, elements[a, i]].
    composed = elements[:, elements].swapaxes(0, 1) @ powers
    table = order[np.searchsorted(codes[order], composed)]
    names = ["".join(str(point + 1) for point in element) for element in elements]
    return Group(names, lambda first, second: table[first, second])


def _is_odd(permutation: tuple[int, ...]) -> bool:
    return sum(a > b for a, b in itertools.combinations(permutation, 2)) % 2 == 1
