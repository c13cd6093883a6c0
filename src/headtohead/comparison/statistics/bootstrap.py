"""Bootstrap intervals: of differences over items that both measured, and of aggregates over several tasks (https://arxiv.org/abs/2108.13264)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headtohead.errors import UsageError

_AT_ONCE = 2**22
"""Numbers drawn at once."""


@dataclass(frozen=True)
class BootstrapInterval:
    """A difference and the interval that holds 1 - alpha of its resampled twins."""

    difference: float
    low: float
    high: float


def paired_bootstrap(
    first: ArrayLike, second: ArrayLike, *, seed: int = 0, samples: int = 5000, alpha: float = 0.05
) -> BootstrapInterval:
    """Return first - second; items are drawn with replacement, each with both its values. The same seed draws the
    same items, so that several differences over the same items belong together."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise UsageError(f"paired values have shapes {a.shape} and {b.shape}: each item needs one value of both")
    differences = a - b
    generator = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // len(a))
    means = np.empty(samples)
    for start in range(0, samples, at_once):
        drawn = generator.integers(len(a), size=(min(at_once, samples - start), len(a)))
        means[start : start + len(drawn)] = differences[drawn].mean(axis=1)
    low, high = np.quantile(means, [alpha / 2, 1 - alpha / 2])
    return BootstrapInterval(float(differences.mean()), float(low), float(high))


# Several tasks at once, runs x tasks: aggregates that few runs support (https://arxiv.org/abs/2108.13264).


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Aggregate:
    """A figure over tasks with its bootstrap interval."""

    value: float
    low: float
    high: float


def iqm(scores: ArrayLike) -> Floats:
    """The mean of the middle half of all scores [..., runs, tasks], each on its task's scale."""
    from scipy import stats

    values = np.asarray(scores, dtype=np.float64)
    return np.asarray(stats.trim_mean(values.reshape(*values.shape[:-2], -1), 0.25, axis=-1))


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> Floats:
    """Return the share of scores [..., runs, tasks] above each threshold."""
    values, limits = np.asarray(scores, dtype=np.float64), np.asarray(thresholds, dtype=np.float64)
    above = values[..., None, :, :] > limits[:, None, None]
    return np.asarray(above.mean(axis=(-2, -1)))


def probability_of_improvement(first: ArrayLike, second: ArrayLike) -> Floats:
    """That a run of the first beats one of the second on a task drawn at random; a tie is half. Larger is better."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    won = np.sign(a[..., :, None, :] - b[..., None, :, :])
    return np.asarray((won.mean(axis=(-3, -2, -1)) + 1) / 2)


def bootstrapped(
    figure: Callable[..., Floats], *scores: ArrayLike, seed: int = 0, samples: int = 2000, alpha: float = 0.05
) -> Aggregate:
    """The figure of one or more arms [runs, tasks], with runs redrawn within each task (stratified)."""
    rng = np.random.default_rng(seed)
    arms = [np.asarray(arm_scores, dtype=np.float64) for arm_scores in scores]
    drawn = [
        np.take_along_axis(arm[None], rng.integers(arm.shape[0], size=(samples, *arm.shape)), axis=1) for arm in arms
    ]
    low, high = np.quantile(figure(*drawn), [alpha / 2, 1 - alpha / 2])
    return Aggregate(float(figure(*arms)), float(low), float(high))
