"""The power of a number of seeds is the same by formula, by statsmodels and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.power import TTestIndPower, TTestPower

from headtohead.comparison.contrasts import Contrast, Registration
from headtohead.comparison.statistics.power import (
    MOST_SEEDS,
    detectable_effect,
    power,
    power_of_t,
    range_of_seeds,
    seeds_needed,
)
from headtohead.comparison.statistics.value_shapes import LEVEL
from headtohead.comparison.verdicts.verdict import verdicts_of


@pytest.mark.parametrize(("num_seeds", "deviations"), [(3, 3.264), (5, 1.682), (8, 1.156), (10, 0.996)])
def test_the_effect_that_a_t_test_alone_finds_is_what_is_published(num_seeds: int, deviations: float) -> None:
    assert power_of_t(deviations, num_seeds) == pytest.approx(0.8, abs=1e-3)


@pytest.mark.parametrize("num_seeds", [3, 5, 8, 10, 30])
def test_the_power_of_a_t_test_is_that_of_statsmodels(num_seeds: int) -> None:
    theirs = TTestPower().solve_power(nobs=num_seeds, alpha=0.05, power=0.8)
    assert power_of_t(float(theirs), num_seeds) == pytest.approx(0.8, rel=1e-3)
    unpaired = TTestIndPower().solve_power(nobs1=num_seeds, alpha=0.05, power=0.8)
    assert power_of_t(float(unpaired), num_seeds, paired=False) == pytest.approx(0.8, rel=1e-3)


def judged(values: np.ndarray, contrasts: int = 1) -> np.ndarray:
    """Return whether each contrast of each study [S, arms, seeds] got a verdict, the last arm being the baseline of
    all."""
    result = []
    for study in values:
        arms = {str(position): dict(enumerate(map(float, arm))) for position, arm in enumerate(study)}
        options = [Contrast(str(position), str(len(study) - 1)) for position in range(contrasts)]
        verdicts = verdicts_of(arms, options, Registration("max", seeds=range(study.shape[1])))
        result.append([verdict.kind == "better" for verdict in verdicts])
    return np.array(result)


@pytest.mark.slow
@pytest.mark.parametrize("num_seeds", [3, 5, 6, 10])
def test_the_detectable_effect_gets_its_verdict_in_80_percent_of_simulated_studies(num_seeds: int) -> None:
    """Two arms whose paired difference has a deviation of 1 go through all that makes a verdict."""
    values = np.random.default_rng(0).normal(0.0, np.sqrt(0.5), size=(400, 2, num_seeds))
    values[:, 0] += detectable_effect(num_seeds)
    assert judged(values).mean() == pytest.approx(0.8, abs=0.06)


def family(effect: float, num_seeds: int, studies: int) -> np.ndarray:
    """Nine arms, each better than the baseline by an effect in deviations of its paired difference."""
    values = np.random.default_rng(0).normal(0.0, np.sqrt(0.5), size=(studies, 10, num_seeds))
    values[:, :9] += effect
    return judged(values, 9)


@pytest.mark.parametrize(("num_seeds", "effect"), [(5, 1.68), (3, 3.26)])
def test_the_effect_of_one_contrast_is_rarely_found_by_the_first_step_of_nine(num_seeds: int, effect: float) -> None:
    """This was stated as found in 80 % of studies, whatever the family."""
    alone = power_of_t(effect, num_seeds, alpha=0.05 / 9)
    assert alone < 0.4 and power_of_t(effect, num_seeds) == pytest.approx(0.8, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("num_seeds", [3, 5, 9])
def test_the_effect_stated_for_nine_contrasts_is_found_in_80_percent_by_each(num_seeds: int) -> None:
    """Holm's later steps are easier: where all nine are there, more are found."""
    result = family(detectable_effect(num_seeds, level=0.05 / 9), num_seeds, 100)
    assert result.mean() >= 0.76


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("num_seeds", [3, 5, 8, 9, 10])
def test_a_single_effect_among_eight_arms_without_any_is_found_in_80_percent(num_seeds: int) -> None:
    values = np.random.default_rng(1).normal(0.0, np.sqrt(0.5), size=(600, 10, num_seeds))
    values[:, 0] += detectable_effect(num_seeds, level=0.05 / 9)
    assert judged(values, 9)[:, 0].mean() == pytest.approx(0.81, abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("num_seeds", [3, 5, 10])
def test_the_range_of_seeds_holds_the_number_that_is_needed_in_80_percent_of_pilots(num_seeds: int) -> None:
    """The number itself has quartiles of 7 and 41 after pilots of three where 15 are needed."""
    needed = seeds_needed(0.8)
    assert needed is not None
    spreads = np.random.default_rng(0).normal(size=(400, num_seeds)).std(axis=1, ddof=1)
    ranges = [range_of_seeds(0.8, float(sd), num_seeds - 1) for sd in spreads]
    held = [least is not None and least <= needed <= (most or MOST_SEEDS) for least, most in ranges]
    assert np.mean(held) == pytest.approx(0.8, abs=0.06)


def test_no_effect_is_found_at_the_level() -> None:
    assert power(0.0, 5, alpha=0.01) == pytest.approx(0.01 * (1 - LEVEL), rel=0.01)


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
