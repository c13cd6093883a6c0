"""Figures of a matrix of counts: true classes below each other, predicted ones side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Counts = Sequence[Sequence[int]]


def matthews(confusion: Counts) -> float:
    """The correlation of predicted with true classes, of any number (Gorodkin 2004,
    https://doi.org/10.1016/j.compbiolchem.2004.09.006); 0 where either is the same throughout."""
    counts = np.array(confusion, dtype=np.float64)
    total, right, true, said = counts.sum(), np.trace(counts), counts.sum(1), counts.sum(0)
    scale = (total**2 - said @ said) * (total**2 - true @ true)
    return float((right * total - true @ said) / np.sqrt(scale)) if scale > 0 else 0.0


def f1_of(confusion: Counts, number: int) -> float:
    """Of finding one class; 0 where nothing is found."""
    counts = np.array(confusion, dtype=np.float64)
    right = counts[number, number]
    return float(2 * right / (counts[number].sum() + counts[:, number].sum())) if right else 0.0
