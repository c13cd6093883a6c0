"""Figures of a matrix of counts: true classes below each other, predicted ones side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headtohead.metrics.accuracy import ACCURACY
from headtohead.metrics.f1_macro import F1_MACRO
from headtohead.metrics.f1_second_class import F1_SECOND_CLASS
from headtohead.metrics.matthews import MATTHEWS
from headtohead.metrics.precision_macro import PRECISION_MACRO
from headtohead.metrics.recall_macro import RECALL_MACRO

Counts = Sequence[Sequence[float]] | np.ndarray
OF_CLASSES = (ACCURACY, PRECISION_MACRO, RECALL_MACRO, F1_MACRO, MATTHEWS, F1_SECOND_CLASS)


def figures_of(confusion: Counts) -> dict[str, float]:
    """Return the metrics of the matrix; means over classes leave out those that are neither true nor predicted, and the
    F1 of the second class is that of two classes alone."""
    counts = np.array(confusion, dtype=np.float64)
    right, true, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
    seen = true + predicted > 0
    found = {
        ACCURACY.name: float(right.sum() / counts.sum()),
        PRECISION_MACRO.name: _mean_share(right, predicted, seen),
        RECALL_MACRO.name: _mean_share(right, true, seen),
        F1_MACRO.name: _mean_share(2 * right, true + predicted, seen),
        MATTHEWS.name: matthews(counts),
    }
    return found | ({F1_SECOND_CLASS.name: f1_of(counts, 1)} if len(counts) == 2 else {})


def _mean_share(parts: np.ndarray, wholes: np.ndarray, seen: np.ndarray) -> float:
    """Return the mean share over the classes that are seen; a share of nothing is 0."""
    return float(np.divide(parts, wholes, out=np.zeros_like(parts), where=wholes > 0)[seen].mean())


def matthews(confusion: Counts) -> float:
    """The correlation of predicted with true classes, of any number (Gorodkin 2004,
    https://doi.org/10.1016/j.compbiolchem.2004.09.006); 0 where either is the same throughout."""
    counts = np.array(confusion, dtype=np.float64)
    total, right, true, said = counts.sum(), np.trace(counts), counts.sum(1), counts.sum(0)
    scale = (total**2 - said @ said) * (total**2 - true @ true)
    return float((right * total - true @ said) / np.sqrt(scale)) if scale > 1e-12 * total**4 else 0.0


def f1_of(confusion: Counts, number: int) -> float:
    """Of finding one class; 0 where nothing is found."""
    counts = np.array(confusion, dtype=np.float64)
    right = counts[number, number]
    return float(2 * right / (counts[number].sum() + counts[:, number].sum())) if right else 0.0
