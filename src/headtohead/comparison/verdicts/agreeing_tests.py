"""Decide whether a verdict on means may be given: from six seeds on an exact test has to agree with the t-test; fewer
are too few for a shape that looks skewed, or for values close to a bound of the metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from headtohead.comparison.statistics.exact_tests import FEWEST, ExactTestGuard, exact_p, exact_p_equivalent
from headtohead.comparison.statistics.means import bounds_of
from headtohead.metrics import Metric

NEAR = 0.1
"""The share of the way from one end of the metric to the other that is near."""
_MOST_SEEDS = 1000


@dataclass(frozen=True)
class ValueDistribution:
    """A value distribution is what all arms of the study and the metric say about the shape of the values."""

    metric: Metric | str
    skewed: bool = False

    @property
    def name(self) -> str:
        """Return the metric in words."""
        return self.metric.label if isinstance(self.metric, Metric) else self.metric

    def trouble(self, arms: Sequence[Sequence[float]]) -> str | None:
        """Return why few seeds of these arms show too little; None where nothing speaks against a t-test."""
        if self.skewed:
            return "the values of the study's arms are skewed"
        least, most = bounds_of(self.metric, [value for arm in arms for value in arm])
        for mean in map(fmean, arms):
            for end in (least, most):
                if abs(mean - end) < NEAR * (most - least) < float("inf"):
                    return f"{self.name} lies within {100 * NEAR:g} % of its bound {end:g}"
        return None


@dataclass(frozen=True)
class TestAgreement:
    """A test agreement is what the exact test makes of a t-test's p-values."""

    p: float
    p_equivalent: float | None
    p_exact: float | None
    """Return None where there are too few seeds for it."""
    withheld: str | None
    """The reason why there are too few seeds for any verdict."""


def agreement(
    arms: tuple[Sequence[float], Sequence[float]],
    p: float,
    p_equivalent: float | None,
    margin: float | None,
    guard: ExactTestGuard,
    shape: ValueDistribution,
) -> TestAgreement:
    """Return the larger of both tests' p-values; of an exact test that cannot reach the family's level, only where it
    does not reach the study's own either."""
    withheld = None if guard.suffices else shape.trouble(arms)
    if not guard.takes_part:
        return TestAgreement(p, p_equivalent, None, withheld)
    exact = exact_p(*arms, paired=guard.paired)
    if p_equivalent is not None and margin is not None:
        equivalent = exact_p_equivalent(*arms, margin, paired=guard.paired)
        p_equivalent = _larger(p_equivalent, equivalent, guard)
    return TestAgreement(_larger(p, exact, guard), p_equivalent, exact, withheld)


def seeds_that_suffice(guard: ExactTestGuard) -> int | None:
    """Return the fewest seeds of each arm with which the exact test decides, whatever the values' shape; None where a
    level is so strict that none do."""
    tried = range(FEWEST, _MOST_SEEDS)
    return next((n for n in tried if ExactTestGuard((n, n), guard.alpha, guard.level, guard.paired).suffices), None)


def _larger(p: float, exact: float, guard: ExactTestGuard) -> float:
    return p if guard.agrees(exact) and not guard.suffices else max(p, exact)
