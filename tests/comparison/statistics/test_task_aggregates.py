"""Aggregates over tasks x runs."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.comparison.statistics.bootstrap import (
    bootstrapped,
    iqm,
    performance_profile,
    probability_of_improvement,
)


def test_the_interquartile_mean_ignores_the_outer_quarters() -> None:
    assert float(iqm([[0.0, 1.0], [2.0, 1000.0]])) == pytest.approx(1.5)


def test_a_performance_profile_falls_from_all_to_none() -> None:
    profile = performance_profile([[0.1, 0.5], [0.3, 0.9]], [0.0, 0.2, 0.4, 0.95])
    assert profile == pytest.approx([1.0, 0.75, 0.5, 0.0])


def test_improvement_counts_every_pair_of_runs_and_ties_half() -> None:
    assert float(probability_of_improvement([[1.0], [2.0]], [[1.0], [0.0]])) == pytest.approx(0.875)
    assert float(probability_of_improvement([[1.0]], [[1.0]])) == 0.5


@pytest.mark.slow
def test_the_bootstrap_over_runs_within_tasks_covers_the_true_aggregate() -> None:
    """Ten tasks of five runs each; the tasks' levels stay what they are."""
    rng = np.random.default_rng(0)
    levels = np.linspace(0.0, 1.0, 10)
    truth = float(iqm(levels + 0.1 * rng.normal(size=(20_000, 10))))
    result = [bootstrapped(iqm, levels + 0.1 * rng.normal(size=(5, 10)), seed=i, samples=400) for i in range(200)]
    assert np.mean([each.low <= truth <= each.high for each in result]) == pytest.approx(0.92, abs=0.05)


def test_arms_of_different_numbers_of_runs_are_drawn_apart() -> None:
    rng = np.random.default_rng(0)
    better, worse = rng.normal(3.0, 1.0, size=(5, 4)), rng.normal(0.0, 1.0, size=(3, 4))
    result = bootstrapped(probability_of_improvement, better, worse)
    assert 0.5 < result.low <= result.value <= result.high <= 1.0
