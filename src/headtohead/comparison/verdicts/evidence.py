"""Choose the test that two arms' values allow: t if means describe them, exact ones if they split, saturate or
diverge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from headtohead.comparison.statistics.exact_tests import ExactTestGuard, rank_test, seeds_to_decide, solve_rates
from headtohead.comparison.statistics.means import MeanDifference, paired, welch
from headtohead.comparison.statistics.power import detectable_effect, range_of_seeds
from headtohead.comparison.statistics.value_shapes import MetricScale, is_near_chance, shape_of
from headtohead.comparison.verdicts.agreeing_tests import ValueDistribution, agreement, seeds_that_suffice

Method = Literal[
    "paired t", "Welch's t", "solve rates", "time to solve", "ranks", "e-process", "e-process of solve rates", "none"
]  # fmt: skip
Outcomes = Mapping[int, float | None]
"""The outcomes by seed; None is a run that diverged, or a time that never came."""
_FEWEST_NEAR_BEST = 6
"""Seeds; of an arm that fails once in five, five seeds all come out well in a third of studies."""


@dataclass(frozen=True)
class TestResult:
    """A test result compares the values of two arms, first minus second, before the family of contrasts is
    considered."""

    method: Method
    because: str | None = None
    """The reason why it is not a t-test, or why there is no test at all."""
    lead: int = 0
    """1: the first arm did better, -1: worse, 0: neither."""
    difference: float | None = None
    """The difference of the metric's means; of the rates where the method is solve rates, of median times for time to
    solve."""
    interval: tuple[float, float] | None = None
    p: float | None = None
    """The larger of both, where an exact test stands beside the t-test."""
    p_exact: float | None = None
    """The p-value of that exact test."""
    p_equivalent: float | None = None
    withheld: str | None = None
    """The reason why there are too few seeds for a verdict on means, whatever the tests say."""
    detectable: float | None = None
    """The smallest difference that this many seeds find in 80 % of studies, in this family."""
    seeds_needed: int | None = None
    """The fewest with which an exact test can decide at all, where it is needed."""
    seeds_range: tuple[int | None, int | None] | None = None
    """The range of seeds needed to find the observed effect, or what the margin asks for; None is more than a
    thousand."""
    solved: tuple[int, int] | None = None
    of: tuple[int, int] | None = None
    neither_learned: bool = False
    """Both arms are near chance."""
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The value of each e-process after each seed, as a logarithm to the base 10."""


NO_VALUES = TestResult("none", "no seed has a value of both arms")


@dataclass(frozen=True)
class TestDesign:
    """A test design says how the metric is to be read, and what was fixed before there were values."""

    larger_is_better: bool
    level: float = 0.05
    margin: float | None = None
    paired: bool = True
    scale: MetricScale | None = None
    solved_at: float | None = None
    names: tuple[str, str] = ("the first arm", "the second arm")
    num_contrasts: int = 1
    """The number of contrasts of the family."""
    alpha: float = 0.05
    """The error rate of the study, of which a look spends a part: the level."""
    shape: ValueDistribution = field(default_factory=lambda: ValueDistribution(""))

    @property
    def strictest(self) -> float:
        """Return the bound that is sufficient for a p-value whatever the rest of the family says: Holm's first step."""
        return self.level / self.num_contrasts

    @property
    def seeds_of_exact_tests(self) -> int:
        """Return the number of seeds with which exact tests decide if all seeds agree, whatever the rest of the family
        says."""
        return seeds_to_decide(self.strictest)


def evidence_of(
    first: Outcomes, second: Outcomes, question: TestDesign, times: Callable[[float], tuple[Outcomes, Outcomes]]
) -> TestResult:
    """The test is chosen by the values' shape alone, never by what it would say: where every seed of both arms has
    solved the task, rates cannot differ, and how soon it was solved is what is left to ask."""
    arms = tuple([arm[seed] for seed in sorted(arm)] for arm in (first, second))
    if not all(arms):
        return NO_VALUES
    result = _by_shape(arms, (first, second), question, times)
    return replace(result, neither_learned=neither_learned(arms, question))


def neither_learned(arms: Sequence[Sequence[float | None]], question: TestDesign) -> bool:
    """Return whether both arms are near chance."""
    scale = question.scale
    return scale is not None and all(is_near_chance(arm, scale, margin=question.margin) for arm in arms)


def _by_shape(
    arms: tuple[list[float | None], ...],
    outcomes: tuple[Outcomes, Outcomes],
    question: TestDesign,
    times: Callable[[float], tuple[Outcomes, Outcomes]],
) -> TestResult:
    diverged = any(value is None for arm in arms for value in arm)
    if question.solved_at is not None:
        rates = _solved(arms, question.solved_at, "solved was defined in the registration", question, times)
        means = None if diverged else _by_mean(*outcomes, question)
        return replace(rates, p_equivalent=means.p_equivalent if means and means.withheld is None else None)
    shapes = [shape_of([value for value in arm if value is not None], question.scale) for arm in arms]
    if "bimodal" not in shapes and not diverged and _margin_decides(arms, shapes, question):
        means = _by_mean(*outcomes, question)
        if means.p is not None:
            return means
    for shape, description in (("bimodal", "fall into two groups"), ("saturated", "are close to the best value")):
        if shape in shapes:
            named = [name for name, own in zip(question.names, shapes, strict=True) if own == shape]
            because = f"the seeds of {' and '.join(named)} {description}"
            if question.scale is None:
                unknown = "and the value at which the task counts as solved is unknown"
                return _by_rank(*outcomes, question, f"{because}, {unknown}")
            at = question.scale.solved_at
            return _solved(arms, at, f"{because}; solved is from {at:.3g} on", question, times)
    if diverged:
        return _by_rank(*outcomes, question, "runs diverged, which rank worst")
    return _by_mean(*outcomes, question)


def _margin_decides(arms: tuple[list[float | None], ...], shapes: Sequence[str], question: TestDesign) -> bool:
    """Near the best, means and the margin decide where there are seeds enough to have met one that fails."""
    return question.margin is not None and "saturated" in shapes and min(map(len, arms)) >= _FEWEST_NEAR_BEST


def _solved(
    arms: tuple[list[float | None], ...],
    at: float,
    because: str,
    question: TestDesign,
    times: Callable[[float], tuple[Outcomes, Outcomes]],
) -> TestResult:
    """Return how many seeds solved the task, or, where all did, how soon."""
    rates = _by_rate(arms, at, because, question)
    timed = times(at) if rates.solved == rates.of else ({}, {})
    known = any(time is not None for arm in timed for time in arm.values())
    return _by_time(timed, because, question) if known else rates


def _by_time(times: tuple[Outcomes, Outcomes], because: str | None, question: TestDesign) -> TestResult:
    first, second = (list(arm.values()) for arm in times)
    solved = (_num_solved(first), _num_solved(second))
    of = (len(first), len(second))
    p = rank_test(first, second, larger_is_better=False)
    medians = [float(np.median([math.inf if t is None else t for t in arm])) for arm in (first, second)]
    difference = medians[0] - medians[1] if all(map(math.isfinite, medians)) else None
    lead = _lead(first, second, larger_is_better=False)
    needed = question.seeds_of_exact_tests
    return TestResult("time to solve", because, lead, difference, p=p, seeds_needed=needed, solved=solved, of=of)


def _by_rate(arms: tuple[list[float | None], ...], at: float, because: str | None, question: TestDesign) -> TestResult:
    sign = 1 if question.larger_is_better else -1
    solved = [sum(v is not None and sign * (v - at) >= 0 for v in arm) for arm in arms]
    counted, of = (solved[0], solved[1]), (len(arms[0]), len(arms[1]))
    rates = solve_rates(counted, of, alpha=question.level)
    difference = solved[0] / of[0] - solved[1] / of[1]
    lead = int(np.sign(difference))
    needed = question.seeds_of_exact_tests
    return TestResult("solve rates", because, lead, difference, p=rates.p, seeds_needed=needed, solved=counted, of=of)


def _by_rank(first: Outcomes, second: Outcomes, question: TestDesign, because: str) -> TestResult:
    a, b = list(first.values()), list(second.values())
    p = rank_test(a, b, larger_is_better=question.larger_is_better)
    finished, others = _finished(first), _finished(second)
    both = [finished[seed] - others[seed] for seed in finished.keys() & others.keys()]
    difference = float(np.mean(both)) if both else None
    lead = _lead(a, b, larger_is_better=question.larger_is_better)
    return TestResult("ranks", because, lead, difference, p=p, seeds_needed=question.seeds_of_exact_tests)


def _by_mean(first: Outcomes, second: Outcomes, question: TestDesign) -> TestResult:
    """Paired arms have the same seeds."""
    a, b = (np.array([value for _, value in sorted(_finished(arm).items())]) for arm in (first, second))
    if min(len(a), len(b)) < 2:
        return TestResult("none", "one seed has no spread", difference=float(a.mean() - b.mean()))
    estimate = paired(a, b) if question.paired else welch(a, b)
    difference = float(estimate.difference)
    if math.isnan(float(estimate.error)):
        return TestResult("none", "the seeds have no spread", difference=difference)
    if not math.isfinite(float(estimate.error)):
        return TestResult("none", "values are too large to be squared", difference=difference)
    low, high = estimate.interval(question.level)
    margin, guard = (
        question.margin,
        ExactTestGuard((len(a), len(b)), question.alpha, question.strictest, question.paired),
    )
    p_equivalent = None if margin is None else float(estimate.p_equivalent(margin))
    agreed = agreement((a.tolist(), b.tolist()), float(estimate.p()), p_equivalent, margin, guard, question.shape)
    detectable, seeds_range = _what_seeds_show(estimate, min(len(a), len(b)), question)
    return TestResult(
        method="paired t" if question.paired else "Welch's t",
        lead=int(np.sign(difference)) * (1 if question.larger_is_better else -1),
        difference=difference,
        interval=(float(low), float(high)),
        p=agreed.p,
        p_exact=agreed.p_exact,
        p_equivalent=agreed.p_equivalent,
        withheld=agreed.withheld,
        detectable=detectable,
        seeds_needed=seeds_that_suffice(guard) if agreed.withheld else None,
        seeds_range=seeds_range,
    )


def _what_seeds_show(
    estimate: MeanDifference, fewest: int, question: TestDesign
) -> tuple[float | None, tuple[int | None, int | None]]:
    """Return the effect that these seeds find, and the seeds that a new registration of the family would need."""
    sd, alpha, is_paired = float(estimate.sd), question.alpha, question.paired
    detectable = detectable_effect(fewest, alpha=alpha, level=question.strictest, paired=is_paired) * sd
    aim = abs(float(estimate.difference)) if question.margin is None else question.margin
    once = alpha / question.num_contrasts
    seeds = range_of_seeds(aim, sd, float(estimate.degrees), alpha=alpha, level=once, paired=is_paired)
    return detectable if math.isfinite(detectable) else None, seeds


def _finished(outcomes: Outcomes) -> dict[int, float]:
    return {seed: value for seed, value in outcomes.items() if value is not None}


def _num_solved(times: list[float | None]) -> int:
    return sum(time is not None for time in times)


def _lead(first: list[float | None], second: list[float | None], *, larger_is_better: bool) -> int:
    """Return which arm wins more of all pairs, where None loses against every number."""
    worst = -math.inf if larger_is_better else math.inf
    a, b = (np.array([worst if v is None else v for v in arm]) for arm in (first, second))
    won = int((a[:, None] > b).sum()) - int((a[:, None] < b).sum())
    return int(np.sign(won)) * (1 if larger_is_better else -1)
