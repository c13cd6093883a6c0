"""Several tasks in one figure each: interquartile means, performance profiles and probabilities of improvement of
normalised scores, runs redrawn within each task (https://arxiv.org/abs/2108.13264)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from headtohead.comparison.comparability import NotComparable
from headtohead.comparison.comparison import Comparison
from headtohead.comparison.statistics.bootstrap import (
    Aggregate,
    bootstrapped,
    iqm,
    performance_profile,
    probability_of_improvement,
)

_NUM_THRESHOLDS = 51
Scores = dict[str, dict[int, float | None]]
"""The scores by task and seed; None is a run that diverged."""


@dataclass(frozen=True)
class TaskScale:
    """A task scale converts the values of one task into scores."""

    task: str
    metric: str
    zero: float
    """The value of score 0."""
    one: float
    """The value of score 1."""

    def score(self, value: float) -> float:
        return (value - self.zero) / (self.one - self.zero)


@dataclass(frozen=True)
class TaskArm:
    """One arm over all tasks; intervals hold 95 %."""

    name: str
    iqm: Aggregate
    improvement: Aggregate | None
    """The probability that its run beats one of the baseline, on a task drawn at random; None for the baseline."""
    profile: tuple[float, ...]
    """The share of its runs above each threshold."""
    means: dict[str, float]
    """The means of its scores, by task."""
    diverged: int


@dataclass(frozen=True)
class TaskAggregate:
    """All arms over all tasks."""

    baseline: str
    scales: tuple[TaskScale, ...]
    arms: tuple[TaskArm, ...]
    """The baseline first."""
    thresholds: tuple[float, ...]
    seeds: tuple[int, ...]
    normalisation: str
    """The meaning of 0 and 1, in words."""

    @property
    def sentences(self) -> list[str]:
        sentences = []
        for arm in self.arms:
            if arm.improvement is not None:
                sentences.append(
                    f"a run of {arm.name} beats one of {self.baseline} with probability {arm.improvement.value:.2f}, "
                    f"95 % interval {arm.improvement.low:.2f} to {arm.improvement.high:.2f}, "
                    f"on a task drawn at random among {len(self.scales)}"
                )
        return sentences

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "sentences": self.sentences}


def aggregate_of(comparisons: Mapping[str, Comparison]) -> tuple[TaskAggregate, dict[str, Scores]]:
    """Aggregate one comparison per task, all against the same baseline; also return the scores by arm.

    Arms that lack a task, and seeds that some arm lacks on some task, are left out.
    """
    baseline = next(iter(comparisons.values())).baseline
    names = [arm.name for arm in next(iter(comparisons.values())).arms]
    names = [name for name in names if all(name in _outcomes(comparison) for comparison in comparisons.values())]
    if len(names) < 2:
        raise NotComparable(
            f"no arm but {baseline} has runs on all of {', '.join(comparisons)}: compare each task separately"
        )
    seeds = set.intersection(
        *(set(_outcomes(comparison)[name]) for comparison in comparisons.values() for name in names)
    )
    if not seeds:
        raise NotComparable(
            f"no seed is shared by all arms on all of {', '.join(comparisons)}: compare each task separately"
        )
    scales, words = _scales(comparisons)
    scores = {name: _scores(name, comparisons, scales, sorted(seeds)) for name in names}
    worst = min([0.0, *(s for tasks in scores.values() for by in tasks.values() for s in by.values() if s is not None)])
    matrices = {name: _matrix(scores[name], worst) for name in names}
    top = max(1.0, *(float(matrix.max()) for matrix in matrices.values()))
    thresholds = np.linspace(min(0.0, worst), top, _NUM_THRESHOLDS)
    arms = tuple(
        TaskArm(
            name=name,
            iqm=bootstrapped(iqm, matrices[name]),
            improvement=None
            if name == baseline
            else bootstrapped(probability_of_improvement, matrices[name], matrices[baseline]),
            profile=tuple(float(share) for share in performance_profile(matrices[name], thresholds)),
            means={task: float(mean) for task, mean in zip(scores[name], matrices[name].mean(0), strict=True)},
            diverged=sum(score is None for by in scores[name].values() for score in by.values()),
        )
        for name in names
    )
    values = tuple(float(threshold) for threshold in thresholds)
    return TaskAggregate(baseline, scales, arms, values, tuple(sorted(seeds)), words), scores


def _outcomes(comparison: Comparison) -> dict[str, dict[int, float | None]]:
    return {arm.name: arm.outcomes for arm in comparison.arms}


def _scales(comparisons: Mapping[str, Comparison]) -> tuple[tuple[TaskScale, ...], str]:
    """Scale all tasks by one rule, so that their scores may be averaged."""
    scales = [
        TaskScale(task, comparison.metric, comparison.chance, comparison.best)
        for task, comparison in comparisons.items()
        if comparison.chance is not None and comparison.best is not None
    ]
    if len(scales) == len(comparisons):
        return tuple(scales), "score 0 is chance, 1 the best possible value"
    return _by_baseline(comparisons)


def _by_baseline(comparisons: Mapping[str, Comparison]) -> tuple[tuple[TaskScale, ...], str]:
    scales = []
    for task, comparison in comparisons.items():
        base = comparison.arms[0]
        mean = fmean(base.values) if base.values else 0.0
        if mean <= 0:
            raise NotComparable(
                f"the scores of {task} have no scale in common with the others: it is unknown what a model that "
                f"learned nothing gets, and {base.name} has no mean above 0: compare each task separately"
            )
        zero, one = (0.0, mean) if comparison.direction == "max" else (2 * mean, mean)
        scales.append(TaskScale(task, comparison.metric, zero, one))
    baseline = next(iter(comparisons.values())).baseline
    return tuple(scales), (
        f"score 1 is the mean of {baseline}; score 0 is 0 where more is better, and twice that mean where less is"
    )


def _scores(
    name: str, comparisons: Mapping[str, Comparison], scales: Sequence[TaskScale], seeds: Sequence[int]
) -> Scores:
    scores: Scores = {}
    for scale in scales:
        outcomes = _outcomes(comparisons[scale.task])[name]
        values = {seed: outcomes[seed] for seed in seeds}
        scores[scale.task] = {seed: None if v is None else scale.score(v) for seed, v in values.items()}
    return scores


def _matrix(scores: Scores, worst: float) -> np.ndarray:
    """Runs by tasks; a run that diverged scores as the worst of all."""
    return np.array([[worst if s is None else s for s in by.values()] for by in scores.values()]).T
