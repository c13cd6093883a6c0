"""How well two lists of numbers go together, in value (Pearson) and in rank (Spearman)."""

from __future__ import annotations

import numpy as np


def pearson(some: np.ndarray, others: np.ndarray) -> float:
    """0 where either is the same throughout, and tells nothing."""
    one, other = (values - values.mean() for values in (some, others))
    scale = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / scale if scale > 0 and min(np.ptp(some), np.ptp(others)) > 0 else 0.0


def spearman(some: np.ndarray, others: np.ndarray) -> float:
    """Pearson's of the ranks."""
    return pearson(ranks(some), ranks(others))


def ranks(values: np.ndarray) -> np.ndarray:
    """From 1, the smallest first; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: np.ndarray = (last - (counts - 1) / 2)[place]
    return means
