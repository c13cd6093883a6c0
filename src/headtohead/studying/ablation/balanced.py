"""Fractions of designs with any numbers of levels, D-optimal for main effects.

Points are added greedily and then exchanged while that makes the determinant of the information matrix larger
(https://doi.org/10.1080/00401706.1974.10489175). The base, all zeros, is always in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

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
        for place in range(1, num_points):
            rest = chosen[:place] + chosen[place + 1 :]
            new = _best(columns, rest)
            if _score(columns, [*rest, new]) > _score(columns, chosen) + _GAIN:
                chosen, improved = [*rest, new], True
    return [candidates[place] for place in sorted(chosen)]


def _main_effects(rows: Sequence[tuple[int, ...]], counts: Sequence[int]) -> Floats:
    """A column of ones, and for each factor one column fewer than it has levels, orthogonal and of one length."""
    columns = [np.ones((len(rows), 1))]
    for factor, count in enumerate(counts):
        levels, _ = np.linalg.qr(np.column_stack([np.ones(count), np.eye(count)[:, 1:]]))
        columns.append(np.sqrt(count) * levels[[row[factor] for row in rows], 1:])
    return np.concatenate(columns, axis=1)


def _best(columns: Floats, chosen: Sequence[int]) -> int:
    """The candidate that adds most: the determinant grows by 1 + x' M^-1 x."""
    inverse = np.linalg.inv(_information(columns, chosen))
    gains = np.einsum("ni,ij,nj->n", columns, inverse, columns)
    gains[list(chosen)] = -np.inf
    return int(np.argmax(gains.round(9)))


def _score(columns: Floats, chosen: Sequence[int]) -> float:
    return float(np.linalg.slogdet(_information(columns, chosen)).logabsdet)


def _information(columns: Floats, chosen: Sequence[int]) -> Floats:
    rows = columns[list(chosen)]
    return np.asarray(rows.T @ rows + _RIDGE * np.eye(columns.shape[1]))
