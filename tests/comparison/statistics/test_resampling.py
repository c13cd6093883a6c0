"""The paired bootstrap: exact where it must be, and as wide as theory says."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from headtohead.comparison.statistics.bootstrap import paired_bootstrap


def test_a_difference_that_is_the_same_everywhere_has_no_width() -> None:
    result = paired_bootstrap([0.5, 0.75, 1.0], [0.25, 0.5, 0.75])
    assert (result.difference, result.low, result.high) == pytest.approx((0.25, 0.25, 0.25))


def test_the_interval_is_that_of_all_samples_there_are() -> None:
    differences = np.array([0.0, 0.3, -0.1, 0.5])
    every = np.array([np.mean(drawn) for drawn in product(differences, repeat=4)])
    result = paired_bootstrap(differences, np.zeros(4), samples=200_000)
    assert (result.low, result.high) == pytest.approx(np.quantile(every, [0.025, 0.975]), abs=0.026)
    assert result.difference == pytest.approx(differences.mean())


def test_of_many_items_it_is_as_wide_as_the_normal_one() -> None:
    draw = np.random.default_rng(0)
    a = draw.normal(size=400)
    b = a + draw.normal(0.1, 0.2, size=400)
    result = paired_bootstrap(b, a)
    error = np.std(b - a, ddof=1) / 20
    assert (result.low, result.high) == pytest.approx(
        (result.difference - 1.96 * error, result.difference + 1.96 * error), abs=0.1 * error * 1.96
    )


def test_the_other_way_round_is_the_mirror_image_and_a_seed_fixes_all() -> None:
    draw = np.random.default_rng(1)
    a, b = draw.random(50), draw.random(50)
    there, back = paired_bootstrap(a, b), paired_bootstrap(b, a)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert paired_bootstrap(a, b) == there != paired_bootstrap(a, b, seed=1)


def test_values_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="each item needs one value of both"):
        paired_bootstrap([1.0, 2.0], [1.0])
