"""Curves over a budget: where they cross, and whether that is known."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.comparison.analyses.budget_ranking import crossings

BUDGET = [1e6, 1e7, 1e8, 1e9]


def curves(spread: float) -> tuple[np.ndarray, np.ndarray]:
    """The first leads by log10(budget / 3e7)."""
    rng = np.random.default_rng(0)
    lead = np.log10(np.array(BUDGET) / 3e7)
    return lead + spread * rng.normal(size=(5, 4)), spread * rng.normal(size=(5, 4))


def test_a_planted_crossing_is_found_between_the_points_that_are_decided() -> None:
    (result,) = crossings(BUDGET, *curves(0.01))
    assert result.at == pytest.approx(3e7, rel=0.05)
    assert (result.low, result.high) == pytest.approx((1e7, 1e8))
    assert result.decided


def test_curves_that_cross_within_the_interval_are_not_decided() -> None:
    result = crossings(BUDGET, *curves(30.0))
    assert all(not crossing.decided for crossing in result)


def test_curves_that_only_touch_do_not_cross() -> None:
    rng = np.random.default_rng(0)
    noise = 0.01 * rng.normal(size=(5, 1)) * np.array([1, 2, 3, 4])
    assert crossings(BUDGET, np.array([1.0, 0.5, 0.5, 1.0]) + noise, np.zeros((5, 4))) == []


def test_a_budget_that_does_not_rise_is_refused() -> None:
    with pytest.raises(ValueError, match="rising numbers above 0"):
        crossings([1.0, 1.0], np.zeros((3, 2)), np.ones((3, 2)))
