"""Arms that a mean does not describe are told from those it does."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.comparison.statistics.value_shapes import MetricScale, shape_of

ACCURACY = MetricScale(chance=0.1, best=1.0)


def test_seeds_solved_or_not_are_two_groups() -> None:
    assert shape_of([0.11, 0.99, 0.12], ACCURACY) == "bimodal"


def test_seeds_at_the_best_are_saturated() -> None:
    assert shape_of([1.0, 0.999, 0.97], ACCURACY) == "saturated"


def test_solved_is_a_fixed_place_on_the_scale() -> None:
    assert ACCURACY.solved_at == pytest.approx(0.91)
    assert MetricScale(chance=4.0, best=0.0).solved_at == pytest.approx(0.4)


def test_a_loss_near_zero_is_saturated_on_its_scale() -> None:
    assert shape_of([0.001, 0.02, 0.01], MetricScale(chance=4.16, best=0.0)) == "saturated"


def test_an_arm_at_chance_is_ordinary() -> None:
    assert shape_of([0.1, 0.11, 0.09], ACCURACY) == "ordinary"


@pytest.mark.parametrize("num_seeds", [3, 5, 6, 8, 10])
def test_normal_seeds_without_a_scale_are_hardly_ever_called_two_groups(num_seeds: int) -> None:
    drawn = np.random.default_rng(0).normal(size=(1000, num_seeds))
    assert np.mean([shape_of(list(seeds)) != "ordinary" for seeds in drawn]) < 0.01


def test_two_far_groups_of_six_seeds_need_no_scale() -> None:
    assert shape_of([2.0, 2.01, 1.99, 0.1, 0.11, 2.02]) == "bimodal"


def test_a_scale_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a scale needs two ends"):
        MetricScale(1.0, 1.0)
