"""Exact tests of means: against scipy's permutation tests, and on values of any shape."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from headtohead.comparison.statistics.exact_tests import exact_p, exact_p_equivalent, smallest_p


def drawn(num_seeds: int, seed: int = 0) -> tuple[list[float], list[float]]:
    values = np.random.default_rng(seed).lognormal(size=(2, num_seeds))
    return values[0].tolist(), values[1].tolist()


@pytest.mark.parametrize("num_seeds", [6, 9])
def test_paired_signs_are_flipped_as_scipy_flips_them(num_seeds: int) -> None:
    first, second = drawn(num_seeds)
    theirs = stats.permutation_test(
        (np.subtract(first, second),), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=np.inf
    )
    assert exact_p(first, second, paired=True) == pytest.approx(theirs.pvalue)


def test_unpaired_values_are_dealt_out_as_scipy_deals_them() -> None:
    first, second = drawn(6)[0], drawn(7, seed=1)[1]
    theirs = stats.permutation_test(
        (first, second), lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis), n_resamples=np.inf
    )
    assert exact_p(first, second, paired=False) == pytest.approx(theirs.pvalue, rel=0.05), "scipy doubles one side"


def test_the_smallest_p_is_that_of_values_that_all_lie_on_one_side() -> None:
    first, second = [2.0, 2.1, 2.2, 2.3, 2.4, 2.55], [1.0, 1.1, 1.0, 1.3, 1.1, 1.2]
    for paired in (True, False):
        assert exact_p(first, second, paired=paired) == pytest.approx(smallest_p(6, 6, paired=paired))


def test_of_many_seeds_some_ways_are_drawn_and_tell_the_same() -> None:
    first, second = (np.random.default_rng(3).normal(size=(2, 24)) + np.array([[0.5], [0.0]])).tolist()
    t = stats.ttest_rel(first, second).pvalue
    assert exact_p(first, second, paired=True) == pytest.approx(t, rel=0.15)


@pytest.mark.parametrize("paired", [True, False])
def test_equivalence_needs_both_sides_to_be_rejected(paired: bool) -> None:
    first, second = [1.0, 1.02, 0.98, 1.01, 0.99, 1.0], [1.01, 1.0, 1.0, 1.0, 1.0, 0.99]
    assert exact_p_equivalent(first, second, 0.5, paired=paired) < 0.02
    assert exact_p_equivalent(first, second, 0.002, paired=paired) > 0.05
    assert exact_p_equivalent([value + 0.5 for value in first], second, 0.4, paired=paired) > 0.9


def test_pairs_that_differ_by_symmetric_values_of_any_shape_are_told_apart_in_5_percent_at_most() -> None:
    rng, result = np.random.default_rng(0), 0
    for _ in range(1000):
        values = rng.random((2, 8)) ** 8
        result += exact_p(values[0].tolist(), values[1].tolist(), paired=True) < 0.05
    assert result / 1000 <= 0.065
