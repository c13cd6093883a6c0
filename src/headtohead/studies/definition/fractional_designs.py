"""Fractions of designs with any numbers of levels, D-optimal for main effects.

Points are added greedily and then exchanged while that makes the determinant of the information matrix larger
(https://doi.org/10.1080/00401706.1974.10489175). The base, all zeros, is always in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from headtohead.config.errors import ConfigurationError

_RIDGE = 1e-6
"""Makes determinants of fewer points than effects comparable."""
_GAIN = 1e-9
Floats = NDArray[np.float64]


def balanced_fraction(counts: Sequence[int], num_points: int) -> list[tuple[int, ...]]:
    """So many different combinations of levels, given their number for each factor; the base first."""
    candidates = [tuple(row) for row in product(*map(range, counts))]
    columns = _main_effects(candidates, counts)
    chosen = [0]
    while len(chosen) < num_points:
        chosen.append(_best(columns, chosen))
    improved = True
    while improved:
        improved = False
        for index in range(1, num_points):
            rest = chosen[:index] + chosen[index + 1 :]
            new = _best(columns, rest)
            if _score(columns, [*rest, new]) > _score(columns, chosen) + _GAIN:
                chosen, improved = [*rest, new], True
    return [candidates[index] for index in sorted(chosen)]


def _main_effects(rows: Sequence[tuple[int, ...]], counts: Sequence[int]) -> Floats:
    """Return a column of ones, and for each factor one column fewer than it has levels, orthogonal and of one
    length."""
    columns = [np.ones((len(rows), 1))]
    for factor, count in enumerate(counts):
        levels, _ = np.linalg.qr(np.column_stack([np.ones(count), np.eye(count)[:, 1:]]))
        columns.append(np.sqrt(count) * levels[[row[factor] for row in rows], 1:])
    return np.concatenate(columns, axis=1)


def _best(columns: Floats, chosen: Sequence[int]) -> int:
    """Return the candidate that adds most: the determinant grows by 1 + x' M^-1 x."""
    inverse = np.linalg.inv(_information(columns, chosen))
    gains = np.einsum("ni,ij,nj->n", columns, inverse, columns)
    gains[list(chosen)] = -np.inf
    return int(np.argmax(gains.round(9)))


def _score(columns: Floats, chosen: Sequence[int]) -> float:
    return float(np.linalg.slogdet(_information(columns, chosen)).logabsdet)


def _information(columns: Floats, chosen: Sequence[int]) -> Floats:
    rows = columns[list(chosen)]
    return np.asarray(rows.T @ rows + _RIDGE * np.eye(columns.shape[1]))


# Regular fractions of two-level designs (Box and Hunter, https://www.jstor.org/stable/1266725).
#
# Some factors are crossed in full; each further one is the product of several of these, its generator. Every product of
# generators is a word of factors whose product is constant: the shortest word's length is the resolution.


Word = frozenset[int]
"""Factors, by place."""


def regular_fraction(factors: Sequence[str], resolution: int) -> list[tuple[int, ...]]:
    """Return the smallest fraction of this resolution: rows of 0 (the base's level) and 1, the base first."""
    for num_crossed in range(2, len(factors)):
        generators = _generators(num_crossed, len(factors) - num_crossed, resolution)
        if generators is not None:
            return [_row(crossed, generators) for crossed in product((0, 1), repeat=num_crossed)]
    raise ConfigurationError(
        f"ablation: no fraction of {len(factors)} factors has resolution {resolution}: set kind: factorial, "
        "or a lower resolution"
    )


def _row(crossed: tuple[int, ...], generators: Sequence[Word]) -> tuple[int, ...]:
    return (*crossed, *(sum(crossed[index] for index in word) % 2 for word in generators))


def _generators(num_crossed: int, num_more: int, resolution: int) -> list[Word] | None:
    """Return one for each further factor, long ones first; None where there are not enough that agree."""
    sizes = range(num_crossed, resolution - 2, -1)
    known = [frozenset(word) for size in sizes for word in combinations(range(num_crossed), size)]

    def extended(chosen: list[Word], words: list[Word], start: int) -> list[Word] | None:
        if len(chosen) == num_more:
            return chosen
        for index in range(start, len(known)):
            new = known[index] | {num_crossed + len(chosen)}
            made = [new, *(word ^ new for word in words)]
            if min(map(len, made)) >= resolution:
                result = extended([*chosen, known[index]], [*words, *made], index + 1)
                if result is not None:
                    return result
        return None

    return extended([], [], 0)
