"""Laws of evidence that may be looked at after every seed: its mean where nothing differs, and what changes none."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from headtohead.comparison.statistics.e_processes import (
    discordant_pairs,
    sign_flips,
    t_mixture,
    t_radius,
    two_proportions,
)

SIZES = np.array([0.3, 1.2, 0.0, 2.5, 0.7, 0.9, 1e-3, 40.0])


def mean_by_enumeration(values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    evidence = np.exp(values)
    return np.asarray(np.average(evidence, axis=0, weights=weights))


def test_the_evidence_of_sign_flips_is_1_in_the_mean_over_all_signs_at_every_number_of_seeds() -> None:
    signs = np.array(list(product([1, -1], repeat=len(SIZES))))
    assert mean_by_enumeration(sign_flips(signs * SIZES)) == pytest.approx(np.ones(len(SIZES)))


def test_the_evidence_of_sign_flips_is_a_martingale_from_every_past() -> None:
    for past in product([1, -1], repeat=4):
        before = np.array(past) * SIZES[:4]
        after = np.array([[*before, sign * SIZES[4]] for sign in (1, -1)])
        assert np.exp(sign_flips(after)[:, -1]).mean() == pytest.approx(math.exp(sign_flips(before)[-1]))


def test_a_run_that_diverged_weighs_as_much_as_the_largest_difference_so_far() -> None:
    assert sign_flips([0.5, -1.0, math.inf]) == pytest.approx(sign_flips([0.5, -1.0, 1.0]))
    signs = np.array(list(product([1, -1], repeat=4)))
    assert mean_by_enumeration(sign_flips(signs * np.array([1.0, math.inf, 2.0, 0.1]))) == pytest.approx(np.ones(4))


def test_the_evidence_of_discordant_pairs_is_1_in_the_mean_however_often_pairs_agree() -> None:
    leads = np.array(list(product([-1, 0, 1], repeat=6)))
    for agreeing in (0.0, 0.4):
        shares = np.array([(1 - agreeing) / 2, agreeing, (1 - agreeing) / 2])
        weights = shares[leads + 1].prod(axis=1)
        assert mean_by_enumeration(discordant_pairs(leads), weights) == pytest.approx(np.ones(6))


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.9])
def test_the_evidence_of_two_equal_proportions_is_at_most_1_in_the_mean(rate: float) -> None:
    solved = np.array(list(product([0, 1], repeat=10)))
    weights = np.where(solved, rate, 1 - rate).prod(axis=1)
    means = mean_by_enumeration(two_proportions(solved[:, :5], solved[:, 5:]), weights)
    assert (means <= 1 + 1e-12).all() and (np.diff(means) <= 1e-12).all()


@pytest.mark.parametrize("process", [t_mixture, sign_flips])
@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e8])
def test_the_unit_of_the_metric_changes_no_evidence(process: object, factor: float) -> None:
    differences = np.random.default_rng(0).normal(size=(5, 12)) + 1
    assert process(factor * differences) == pytest.approx(process(differences), abs=1e-6)  # type: ignore[operator]
    assert process(-differences) == pytest.approx(process(differences), abs=1e-6)  # type: ignore[operator]


def test_the_evidence_of_the_t_mixture_stays_at_1_for_one_seed_and_for_seeds_without_spread() -> None:
    assert t_mixture([3.0, 3.0, 3.0]).tolist() == [0.0, 0.0, 0.0]
    assert t_mixture([0.1 + 1e-17, 0.1, 0.1 - 1e-17])[-1] == 0.0


def test_the_t_mixture_is_a_bayes_factor_of_gaussian_effects() -> None:
    """Compare with the ratio of noncentral and central t densities, integrated over the effect numerically."""
    from scipy import integrate, stats

    differences = np.array([0.4, 1.1, -0.2, 0.9, 0.7])
    number = len(differences)
    t = differences.mean() / differences.std(ddof=1) * math.sqrt(number)
    effects = np.linspace(-12, 12, 4001)
    densities = stats.nct.pdf(t, number - 1, effects * math.sqrt(number)) * stats.norm.pdf(effects, scale=2)
    ratio = integrate.trapezoid(densities, effects) / stats.t.pdf(t, number - 1)
    assert math.exp(t_mixture(differences)[-1]) == pytest.approx(ratio, rel=1e-6)


def test_the_confidence_sequence_ends_where_the_evidence_reaches_1_over_alpha() -> None:
    differences = np.random.default_rng(1).normal(size=9)
    radius = t_radius(9, float(differences.std(ddof=1)), 0.05)
    for end in (differences.mean() - radius, differences.mean() + radius):
        assert math.exp(t_mixture(differences - end)[-1]) == pytest.approx(20)
    assert t_radius(2, 1.0, 0.05) == math.inf == t_radius(1, 0.0, 0.05)


def test_no_evidence_of_sign_flips_exceeds_half_of_all_signs() -> None:
    """An exact test of n paired differences has no smaller p-value than 2 / 2^n."""
    alike = sign_flips(np.ones(10))
    assert (alike <= np.arange(10) * math.log(2) + 1e-12).all() and alike[-1] > math.log(9 / 0.05)
