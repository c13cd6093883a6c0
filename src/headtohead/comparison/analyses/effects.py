"""Estimate what the factors of an ablation do: main effects and interactions, each a contrast within every seed.

Each is tested over the seeds as a verdict is: with Student's t, from six seeds on by an exact test too. P-values of
what was registered are adjusted by Holm's method, of what explores by Benjamini and Hochberg, over all effects that can
be estimated."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

import numpy as np

from headtohead.comparison.contrasts import Values
from headtohead.comparison.statistics.exact_tests import ExactTestGuard
from headtohead.comparison.statistics.factorial import Cell, Design, Effect, Estimator
from headtohead.comparison.statistics.means import MeanDifference, difference_interval, paired
from headtohead.comparison.statistics.multiple_testing import adjusted
from headtohead.comparison.statistics.power import detectable_effect
from headtohead.comparison.statistics.value_shapes import MetricScale, is_skewed, shape_of
from headtohead.comparison.verdicts.agreeing_tests import TestAgreement, ValueDistribution, agreement

Remark = Literal["better", "worse", "interact", "undecided", "not estimable"]


@dataclass(frozen=True)
class Factors:
    """The design of an ablation: factors with their levels, the base's first, and the arms that were planned."""

    levels: Mapping[str, Sequence[str]]
    arms: Mapping[str, Cell]
    crossed: bool = True
    """Factors vary together: else one at a time, and nothing is known of what they do together."""

    def design(self, arms: Sequence[str]) -> Design:
        """Return the design of these arms; it omits levels that none of them has, except the base's."""
        cells = [self.arms[arm] for arm in arms]
        seen = {factor: {cell[factor] for cell in cells} for factor in self.levels}
        levels = {
            factor: [base, *(level for level in others if level in seen[factor])]
            for factor, (base, *others) in self.levels.items()
        }
        return Design(levels, cells)


@dataclass(frozen=True)
class EffectEstimate:
    """One effect: of the metric, level minus base."""

    levels: tuple[tuple[str, str], ...]
    """Factor and level; two for an interaction."""
    kind: Remark
    difference: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    """The larger of both, where an exact test stands beside the t-test."""
    p_adjusted: float | None = None
    withheld: str | None = None
    """The reason why there are too few seeds for this shape, whatever the tests say."""
    exploratory: bool = False
    """It rests on an arm or on seeds that were not registered so."""
    detectable: float | None = None
    """The smallest effect found in 80 % of studies of this many seeds and effects."""
    assuming: tuple[str, ...] = ()
    """Interactions that are taken to be zero, since the cells do not tell them from it."""
    aliases: tuple[str, ...] = ()
    """The effects that an effect that is not estimable cannot be told apart from."""

    @property
    def name(self) -> str:
        return Effect(self.levels).name

    @property
    def is_interaction(self) -> bool:
        return len(self.levels) > 1


@dataclass(frozen=True)
class CellMean:
    """One arm of the design."""

    arm: str
    levels: Cell
    mean: float | None
    """The mean over the seeds counted; None where the arm does not count."""
    values: tuple[float, ...] = ()
    """Those of the mean, by seed."""


@dataclass(frozen=True)
class Effects:
    """All of them, main effects first."""

    metric: str
    direction: Literal["min", "max"]
    factors: Mapping[str, Sequence[str]]
    crossed: bool
    effects: tuple[EffectEstimate, ...]
    cells: tuple[CellMean, ...]
    seeds: tuple[int, ...]
    """The seeds for which every arm that counts has a value."""
    level: float
    remarks: tuple[str, ...] = field(default=())

    @property
    def base(self) -> dict[str, str]:
        return {factor: levels[0] for factor, levels in self.factors.items()}


@dataclass(frozen=True)
class EffectSettings:
    """Effect settings say how the values of the metric are to be read."""

    metric: str
    direction: Literal["min", "max"]
    level: float = 0.05
    exploratory: Collection[str] = ()
    """Arms whose verdict is: of an effect that rests on one, not the family's error is held but the false discovery
    rate."""
    scale: MetricScale | None = None
    num_effects: int = 1
    """That are tested together."""
    skewed: bool = False
    """Whether the values of the arms are."""

    @property
    def strictest(self) -> float:
        """Return what a p-value by itself has to stay below, whatever the other effects say."""
        return self.level / max(1, self.num_effects)


def effects_of(factors: Factors, values: Values, reading: EffectSettings) -> Effects:
    """Estimate the effects from the values of arms by seed; None is a run that diverged, which leaves its arm out."""
    data = {arm: values.get(arm, {}) for arm in factors.arms}
    complete_arms = [arm for arm, runs in data.items() if runs and all(_is_number(value) for value in runs.values())]
    every = sorted(set[int]().union(*(data[arm] for arm in complete_arms)))
    seeds = [seed for seed in every if all(seed in data[arm] for arm in complete_arms)]
    matrix = np.array([[data[arm][seed] for arm in complete_arms] for seed in seeds], dtype=np.float64).reshape(
        -1, len(complete_arms)
    )
    if any(arm in reading.exploratory and len(data[arm]) < len(every) for arm in complete_arms):
        reading = replace(reading, exploratory=complete_arms)  # the seeds that it lacks are missing in all effects
    result = _estimates(factors, complete_arms, matrix, reading) if complete_arms else ()
    return Effects(
        metric=reading.metric,
        direction=reading.direction,
        factors={factor: tuple(levels) for factor, levels in factors.levels.items()},
        crossed=factors.crossed,
        effects=tuple(result),
        cells=tuple(
            _cell_mean(arm, cell, data[arm] if arm in complete_arms else {}, seeds)
            for arm, cell in factors.arms.items()
        ),
        seeds=tuple(seeds),
        level=reading.level,
        remarks=tuple(_remarks(data, complete_arms, sorted(set(every) - set(seeds)), reading)),
    )


def _estimates(
    factors: Factors, complete_arms: Sequence[str], matrix: np.ndarray, reading: EffectSettings
) -> Iterator[EffectEstimate]:
    design = factors.design(complete_arms)
    estimators = design.estimators(interactions=factors.crossed)
    estimates = [_estimate(matrix, each) for each in estimators]
    sentences = [index for index, each in enumerate(estimates) if each is not None]
    reading = replace(reading, num_effects=len(sentences), skewed=is_skewed(matrix.T.tolist()))
    agreed = [
        _agreement(matrix, estimator, estimate, reading)
        for estimator, estimate in zip(estimators, estimates, strict=True)
    ]
    p_values = [None if (each := agreed[index]) is None else each.p for index in sentences]
    holm, explored = (
        dict(zip(sentences, adjusted(p_values, how), strict=True)) for how in ("holm", "benjamini_hochberg")
    )
    for index, (estimator, estimate) in enumerate(zip(estimators, estimates, strict=True)):
        explores = _explores(estimator, complete_arms, reading)
        family = explored if explores else holm
        effect = _effect(estimator, estimate, agreed[index], family.get(index), len(matrix), reading)
        yield replace(effect, exploratory=explores, interval=_shown(effect, estimator, matrix, reading))
    for factor, (_, *others) in factors.levels.items():
        for level in others:
            if level not in design.factors[factor]:
                yield EffectEstimate(((factor, level),), "not estimable")


def _shown(
    effect: EffectEstimate, estimator: Estimator, matrix: np.ndarray, reading: EffectSettings
) -> tuple[float, float] | None:
    """An interaction is a difference of two differences, and reaches twice as far as an effect."""
    if estimator.weights is None:
        return None
    times = float(np.clip(estimator.weights, 0.0, None).sum())
    return difference_interval(effect.interval, reading.metric, matrix.ravel().tolist(), times=times)


def _explores(estimator: Estimator, complete_arms: Sequence[str], reading: EffectSettings) -> bool:
    if estimator.weights is None:
        return False
    return any(
        weight and arm in reading.exploratory
        for arm, weight in zip(complete_arms, estimator.weights.tolist(), strict=True)
    )


def _estimate(matrix: np.ndarray, estimator: Estimator) -> MeanDifference | None:
    """Each seed is a whole experiment; None below two."""
    if estimator.weights is None or len(matrix) < 2:
        return None
    return paired(*_sides(matrix, estimator.weights))


def _sides(matrix: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return by seed what is added up and what is subtracted."""
    return matrix @ np.clip(weights, 0.0, None), matrix @ np.clip(-weights, 0.0, None)


def _agreement(
    matrix: np.ndarray, estimator: Estimator, estimate: MeanDifference | None, reading: EffectSettings
) -> TestAgreement | None:
    """Return what the exact test makes of the t-test's p-value; None where there is none."""
    if estimator.weights is None or estimate is None or not np.isfinite(estimate.error):
        return None
    if not math.isfinite(p := float(estimate.p())):
        return None
    scale = np.clip(estimator.weights, 0.0, None).sum()  # so that both sides are on the scale of the metric
    plus, minus = ((side / scale).tolist() for side in _sides(matrix, estimator.weights))
    guard = ExactTestGuard((len(matrix), len(matrix)), reading.level, reading.strictest)
    return agreement((plus, minus), p, None, None, guard, ValueDistribution(reading.metric, reading.skewed))


def _effect(
    estimator: Estimator,
    estimate: MeanDifference | None,
    agreed: TestAgreement | None,
    p_adjusted: float | None,
    num_seeds: int,
    reading: EffectSettings,
) -> EffectEstimate:
    levels, names = estimator.effect.levels, tuple(alias.name for alias in estimator.aliases)
    if estimator.weights is None:
        return EffectEstimate(levels, "not estimable", aliases=names)
    if estimate is None:
        return EffectEstimate(levels, "undecided", assuming=names)
    difference = float(estimate.difference)
    low, high = (float(bound) for bound in estimate.interval(reading.level))
    detectable = detectable_effect(num_seeds, alpha=reading.level, level=reading.strictest) * float(estimate.sd)
    withheld = None if agreed is None else agreed.withheld
    return EffectEstimate(
        levels=levels,
        kind="undecided" if withheld else _kind(difference, p_adjusted, len(levels) > 1, reading),
        difference=difference,
        interval=None if agreed is None else (low, high),
        p=None if agreed is None else agreed.p,
        p_adjusted=p_adjusted,
        withheld=withheld,
        detectable=None if agreed is None or not math.isfinite(detectable) else detectable,
        assuming=names,
    )


def _kind(difference: float, p_adjusted: float | None, is_interaction: bool, reading: EffectSettings) -> Remark:
    if p_adjusted is None or p_adjusted >= reading.level:
        return "undecided"
    if is_interaction:
        return "interact"
    return "better" if (difference > 0) == (reading.direction == "max") else "worse"


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _cell_mean(arm: str, cell: Cell, runs: Mapping[int, float | None], seeds: Sequence[int]) -> CellMean:
    counted = tuple(value for seed in seeds if (value := runs.get(seed)) is not None)
    return CellMean(arm, dict(cell), fmean(counted) if counted else None, counted)


def _remarks(
    data: Mapping[str, Mapping[int, float | None]],
    complete_arms: Sequence[str],
    incomplete: Sequence[int],
    reading: EffectSettings,
) -> Iterator[str]:
    for arm, runs in data.items():
        diverged = sum(not _is_number(value) for value in runs.values())
        if diverged:
            yield (
                f"{arm} is left out of the effects: {diverged} of its {len(runs)} runs diverged, which is not a number"
            )
        elif not runs:
            yield f"{arm} is left out of the effects: none of its runs has a value"
    for seed in incomplete:
        without_name = ", ".join(arm for arm in complete_arms if seed not in data[arm])
        yield f"seed {seed} is left out of the effects: it has no value of {without_name}"
    for arm in complete_arms:
        shape = shape_of([value for value in data[arm].values() if value is not None], reading.scale)
        if shape != "ordinary":
            how = "fall into two groups" if shape == "bimodal" else "are close to the best value"
            yield f"the seeds of {arm} {how}, where means say little: read the verdicts on solve rates instead"
