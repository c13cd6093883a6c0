"""Intervals and tests of means: right by scipy's own, and honest on normal, skewed and bimodal values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from headtohead.comparison.statistics.means import MeanDifference, paired, welch

STUDIES = 20_000
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Mostly well trained, now and then bad: the mean is 0."""
    return rng.exponential(size=shape) - 1.0


def bimodal(rng: np.random.Generator, shape: tuple[int, ...], rate: float) -> np.ndarray:
    """Solved by this share of the seeds: the mean is 0."""
    return (rng.random(shape) < rate) - rate + 0.001 * rng.normal(size=shape)


def test_the_paired_t_test_is_scipys() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 6))
    ours, theirs = paired(a, b), stats.ttest_rel(a, b)
    assert float(ours.p()) == pytest.approx(theirs.pvalue)
    assert np.allclose(ours.interval(0.1), theirs.confidence_interval(0.9))


def test_welchs_test_is_scipys() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=5), rng.normal(1.0, 3.0, size=8)
    ours, theirs = welch(a, b), stats.ttest_ind(a, b, equal_var=False)
    assert float(ours.p()) == pytest.approx(theirs.pvalue)
    assert np.allclose(ours.interval(), theirs.confidence_interval(0.95))


def test_equivalence_is_two_one_sided_tests() -> None:
    differences = np.random.default_rng(0).normal(0.1, 0.3, size=8)
    ours = float(paired(differences, np.zeros(8)).p_equivalent(0.5))
    sides = [
        stats.ttest_1samp(differences, -0.5, alternative="greater").pvalue,
        stats.ttest_1samp(differences, 0.5, alternative="less").pvalue,
    ]
    assert ours == pytest.approx(max(sides))


@pytest.mark.parametrize("num_seeds", [3, 5, 10])
def test_a_95_percent_interval_covers_95_percent_of_normal_differences(num_seeds: int) -> None:
    assert coverage(normal, num_seeds) == pytest.approx(0.95, abs=0.006)


@pytest.mark.parametrize("num_seeds", [3, 5, 10])
def test_pairs_of_skewed_values_differ_symmetrically_and_are_covered(num_seeds: int) -> None:
    assert coverage(skewed, num_seeds) >= 0.945


def test_skewed_differences_themselves_are_covered_less_than_stated() -> None:
    rng = np.random.default_rng(0)
    covered = covers(paired(skewed(rng, (STUDIES, 5)), np.zeros((STUDIES, 5))))
    assert 0.85 < covered < 0.92


@pytest.mark.parametrize(("rate", "covered"), [(0.5, 0.75), (0.7, 0.63)])
def test_means_of_bimodal_values_are_covered_so_badly_that_they_are_not_used(rate: float, covered: float) -> None:
    """Three seeds all solved or all failed give an interval of next to no width, which misses."""
    values = bimodal(np.random.default_rng(0), (STUDIES, 3), rate)
    assert covers(paired(values, np.zeros_like(values))) == pytest.approx(covered, abs=0.02)


def test_welch_holds_its_level_where_spreads_differ() -> None:
    rng = np.random.default_rng(0)
    p = welch(rng.normal(size=(STUDIES, 5)), rng.normal(0.0, 3.0, size=(STUDIES, 5))).p()
    assert (p < 0.05).mean() == pytest.approx(0.05, abs=0.012)


def test_arms_at_the_margin_are_called_equivalent_in_5_percent_at_most() -> None:
    rng = np.random.default_rng(0)
    p = paired(rng.normal(1.0, 0.5, size=(STUDIES, 5)), np.zeros((STUDIES, 5))).p_equivalent(1.0)
    assert (p < 0.05).mean() == pytest.approx(0.05, abs=0.006)


@pytest.mark.parametrize("values", [[0.1, 0.1, 0.1], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0 + 1e-15]])
def test_differences_without_spread_have_no_p_value_and_no_interval(values: list[float]) -> None:
    for estimate in (paired(values, np.zeros(3)), welch(values, np.zeros(3))):
        numbers = [estimate.p(), *estimate.interval(), estimate.p_equivalent(1.0)]
        assert np.isnan(numbers).all()


def test_rounding_of_large_values_is_no_spread() -> None:
    assert np.isnan(paired([1e6 + 0.1, 2e6 + 0.1, 3e6 + 0.1], [1e6, 2e6, 3e6]).p())


def test_a_divergence_is_never_a_number_in_a_t_test() -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="diverged run is counted, never averaged"):
            paired([1.0, bad], [1.0, 2.0])


def test_one_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="one seed has no spread"):
        paired([1.0], [2.0])


def test_a_missing_partner_is_refused() -> None:
    with pytest.raises(ValueError, match="each seed needs one value of both arms"):
        paired([1.0, 2.0], [1.0, 2.0, 3.0])


def coverage(draw: Draw, num_seeds: int) -> float:
    rng = np.random.default_rng(0)
    return covers(paired(draw(rng, (STUDIES, num_seeds)), draw(rng, (STUDIES, num_seeds))))


def covers(estimate: MeanDifference) -> float:
    low, high = estimate.interval()
    return float(((low <= 0) & (high >= 0)).mean())
