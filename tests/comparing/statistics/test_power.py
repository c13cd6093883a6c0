"""What a number of seeds can show: by formula, by statsmodels and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.power import TTestIndPower, TTestPower

from headtohead.comparing.statistics.means import paired
from headtohead.comparing.statistics.power import MOST_SEEDS, detectable_effect, power, seeds_needed


@pytest.mark.parametrize(("num_seeds", "deviations"), [(3, 3.2), (5, 1.66), (8, 1.15), (10, 0.99)])
def test_the_detectable_effect_is_what_is_promised(num_seeds: int, deviations: float) -> None:
    """The promised figures are rounded: 3.264, 1.682, 1.156 and 0.996 by the noncentral t."""
    assert detectable_effect(num_seeds) == pytest.approx(deviations, rel=0.021)


@pytest.mark.parametrize("num_seeds", [3, 5, 8, 10, 30])
def test_the_detectable_effect_is_that_of_statsmodels(num_seeds: int) -> None:
    theirs = TTestPower().solve_power(nobs=num_seeds, alpha=0.05, power=0.8)
    assert detectable_effect(num_seeds) == pytest.approx(float(theirs), rel=1e-3)
    unpaired = TTestIndPower().solve_power(nobs1=num_seeds, alpha=0.05, power=0.8)
    assert detectable_effect(num_seeds, paired=False) == pytest.approx(float(unpaired), rel=1e-3)


@pytest.mark.parametrize("num_seeds", [2, 3, 5, 8, 10])
def test_the_detectable_effect_is_found_in_80_percent_of_simulated_studies(num_seeds: int) -> None:
    differences = np.random.default_rng(0).normal(detectable_effect(num_seeds), 1.0, size=(20_000, num_seeds))
    assert (paired(differences, np.zeros_like(differences)).p() < 0.05).mean() == pytest.approx(0.8, abs=0.01)


def test_no_effect_is_found_at_the_level() -> None:
    assert power(0.0, 5, alpha=0.01) == pytest.approx(0.01, rel=0.01)


def test_one_seed_shows_nothing() -> None:
    assert math.isinf(detectable_effect(1))


def test_the_seeds_needed_are_the_fewest_that_reach_the_power() -> None:
    for effect in (0.5, 1.0, 3.3):
        needed = seeds_needed(effect)
        assert needed is not None
        assert power(effect, needed) >= 0.8
        assert needed == 2 or power(effect, needed - 1) < 0.8
    assert seeds_needed(0.5) == 34


def test_an_effect_beyond_reach_has_no_number_of_seeds() -> None:
    assert seeds_needed(0.0) is None
    assert seeds_needed(2.0 / MOST_SEEDS) is None
