"""The shape of a study's values, by all of its arms."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.comparison.statistics.value_shapes import LEVEL, is_skewed


def called_skewed(values: np.ndarray) -> float:
    return float(np.mean([is_skewed(study.tolist()) for study in values]))


@pytest.mark.parametrize("shared", [0.0, 0.7])
def test_normal_studies_are_called_skewed_as_often_as_stated(shared: float) -> None:
    """The share is the same whether or not all arms share a seed's effect."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(600, 4, 5)) + shared * rng.normal(size=(600, 1, 5))
    assert called_skewed(values) == pytest.approx(LEVEL, abs=0.025)


def test_all_arms_together_show_what_one_cannot() -> None:
    rng = np.random.default_rng(0)
    one, ten = (called_skewed(rng.lognormal(size=(200, arms, 5))) for arms in (1, 10))
    assert one < 0.35 and ten > 0.6


def test_arms_without_spread_or_with_two_values_tell_nothing() -> None:
    assert not is_skewed([[1.0, 1.0, 1.0 + 1e-15], [0.0, 5.0], []])


def test_values_of_any_size_are_judged_alike() -> None:
    values = np.random.default_rng(0).lognormal(sigma=2.0, size=(6, 8))
    assert is_skewed(values.tolist()) and is_skewed((1e-150 * values).tolist()) and is_skewed((1e200 * values).tolist())
