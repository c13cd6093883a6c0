"""Arms near chance have shown nothing: told apart from those that learned, by simulation and by single cases."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.comparison.statistics.value_shapes import MetricScale, is_near_chance

RECALL = MetricScale(chance=1 / 64, best=1.0)
LOSS = MetricScale(chance=4.16, best=0.0)


def test_an_arm_at_chance_is_near_it_and_one_that_is_worse_too() -> None:
    assert is_near_chance([0.037, 0.036, 0.038], RECALL)
    assert is_near_chance([0.0, 0.0, 0.001], RECALL)
    assert is_near_chance([4.2, 4.3, 4.25], LOSS)


def test_an_arm_that_gained_more_than_a_twentieth_of_the_way_is_not() -> None:
    assert not is_near_chance([0.12, 0.11, 0.13], RECALL)
    assert not is_near_chance([3.5, 3.4, 3.45], LOSS)


def test_a_margin_says_which_gain_counts() -> None:
    assert is_near_chance([0.12, 0.11, 0.13], RECALL, margin=0.2)
    assert not is_near_chance([0.037, 0.036, 0.038], RECALL, margin=0.01)


def test_a_margin_as_long_as_the_way_calls_no_learning_none() -> None:
    assert not is_near_chance([0.96, 0.95, 0.97], MetricScale(0.8, 1.0), margin=0.3)


def test_an_arm_of_which_a_seed_solved_the_task_has_learned_it_however_wide_its_interval() -> None:
    assert not is_near_chance([0.02, 0.99, 0.02], RECALL)


@pytest.mark.parametrize(("values", "near"), [([None, None], True), ([None, 0.5, 0.51, 0.49], False), ([], False)])
def test_runs_that_diverged_have_learned_nothing(values: list[float | None], near: bool) -> None:
    assert is_near_chance(values, RECALL) is near


def test_values_without_spread_are_what_they_are() -> None:
    assert is_near_chance([0.5, 0.5, 0.5], MetricScale(0.5, 1.0)) and not is_near_chance(
        [0.9, 0.9, 0.9], MetricScale(0.5, 1.0)
    )


@pytest.mark.parametrize("num_seeds", [3, 5, 10])
def test_an_arm_at_chance_is_hardly_ever_said_to_have_learned(num_seeds: int) -> None:
    """The interval's lower end would have to lie a whole gain above: one side of a 95 % interval at most."""
    drawn = np.random.default_rng(1000).normal(0.5, 0.02, size=(1000, num_seeds))
    learned = np.mean([not is_near_chance(list(seeds), MetricScale(0.5, 1.0)) for seeds in drawn])
    assert learned <= 0.03


@pytest.mark.parametrize("num_seeds", [3, 5])
def test_an_arm_that_learned_is_hardly_ever_said_to_be_near(num_seeds: int) -> None:
    drawn = np.random.default_rng(1000).normal(0.8, 0.02, size=(1000, num_seeds))
    assert np.mean([is_near_chance(list(seeds), MetricScale(0.5, 1.0)) for seeds in drawn]) <= 0.01
