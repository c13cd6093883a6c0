"""Exact tests on solved seeds and times to solve: their levels by simulation, ties and divergences in their place."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from headtohead.comparison.statistics.exact_tests import rank_test, solve_rates


def test_three_seeds_cannot_decide_a_solve_rate_and_four_can() -> None:
    assert solve_rates((3, 0), (3, 3)).p == pytest.approx(0.1)
    assert solve_rates((4, 0), (4, 4)).p < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 0.7])
def test_equal_rates_differ_in_5_percent_at_most_also_where_arms_share_the_luck_of_a_seed(shared: float) -> None:
    rng = np.random.default_rng(0)
    own, common = rng.random((20_000, 2, 8)), rng.random((20_000, 1, 8))
    key = np.where(rng.random((20_000, 1, 8)) < shared, common, own)
    solved = (key < 0.5).sum(axis=2)
    p = np.array([[solve_rates((a, b), (8, 8)).p for b in range(9)] for a in range(9)])
    assert (p[solved[:, 0], solved[:, 1]] < 0.05).mean() <= 0.05


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_interval_of_a_rate_covers_95_percent_at_least(rate: float) -> None:
    chances = stats.binom.pmf(np.arange(6), 5, rate)
    intervals = [solve_rates((k, 0), (5, 5)).intervals[0] for k in range(6)]
    covered = sum(chance for chance, (low, high) in zip(chances, intervals, strict=True) if low <= rate <= high)
    assert covered >= 0.95


def test_times_that_never_came_are_the_worst() -> None:
    never, soon = [None, None, None, None, None], [900.0, 950.0, 990.0, 999.0, 1000.0]
    assert rank_test(soon, never, larger_is_better=False) == pytest.approx(2 / 252)
    assert rank_test([5.0, None, 7.0], [None, 7.0, 5.0], larger_is_better=False) == pytest.approx(1.0)


def test_without_ties_the_rank_test_is_the_exact_mann_whitney_test() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 6))
    theirs = stats.mannwhitneyu(a, b, method="exact").pvalue
    assert rank_test(list(a), list(b), larger_is_better=True) == pytest.approx(theirs)


def test_seeds_that_all_tie_have_no_p_value() -> None:
    assert rank_test([None, None], [None, None], larger_is_better=True) is None


def test_a_against_a_with_diverging_runs_is_decided_falsely_in_5_percent_at_most() -> None:
    rng = np.random.default_rng(0)
    false = 0
    for _ in range(300):
        arms = [[None if rng.random() < 0.3 else float(rng.normal()) for _ in range(5)] for _ in range(2)]
        p = rank_test(*arms, larger_is_better=True)
        false += p is not None and p < 0.05
    assert false / 300 <= 0.07


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [([None], [2.0], 1.0), ([None], [2.0, 2.1, 2.2], 0.5), ([2.0, 2.1, 2.2, 2.3], [None], 0.4)],
)
def test_a_single_run_has_a_p_value_by_rank_too(
    first: list[float | None], second: list[float | None], p: float
) -> None:
    assert rank_test(first, second, larger_is_better=False) == pytest.approx(p)
