"""p-values of a family of contrasts: Holm where it was registered (https://www.jstor.org/stable/4615733), the false
discovery rate of Benjamini and Hochberg (https://doi.org/10.1111/j.2517-6161.1995.tb02031.x) where it explores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Adjustment = Literal["holm", "benjamini_hochberg"]


def adjusted(p_values: Sequence[float | None], method: Adjustment) -> list[float | None]:
    """In the order given. A contrast without p-value stays without, and counts in the family: it was asked too."""
    if not p_values:
        return []
    family = np.array([1.0 if p is None else p for p in p_values])
    raised = _holm(family) if method == "holm" else _benjamini_hochberg(family)
    return [None if p is None else float(new) for p, new in zip(p_values, raised, strict=True)]


def _holm(family: NDArray[np.float64]) -> NDArray[np.float64]:
    order = family.argsort()
    raised = np.empty_like(family)
    raised[order] = np.maximum.accumulate(family[order] * np.arange(len(family), 0, -1)).clip(max=1.0)
    return raised


def _benjamini_hochberg(family: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy import stats

    return np.asarray(stats.false_discovery_control(family))
