"""Looking early: the published boundaries, and what looking without them costs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from headtohead.comparing.statistics.looks import levels, spent
from headtohead.comparing.statistics.means import paired

STUDIES = 20_000


@pytest.mark.parametrize(
    ("looks", "published"),
    [
        ([1, 2], [2.963, 1.969]),
        ([1, 2, 3], [3.710, 2.511, 1.993]),
        ([1, 2, 3, 4, 5], [4.877, 3.357, 2.680, 2.290, 2.031]),
    ],
)
def test_boundaries_of_equal_looks_are_the_published_ones(looks: list[int], published: list[float]) -> None:
    """Of the O'Brien-Fleming type after Lan and DeMets, two-sided 5 %."""
    ours = [float(stats.norm.isf(level / 2)) for level in levels(looks)]
    assert ours == pytest.approx(published, abs=1e-3)


def test_one_look_keeps_all_of_alpha() -> None:
    assert levels([5], alpha=0.05) == pytest.approx([0.05], rel=1e-6)
    assert spent(1.0, 0.05) == pytest.approx(0.05)


def test_normal_scores_cross_registered_boundaries_in_5_percent_of_studies() -> None:
    scores = np.random.default_rng(0).normal(size=(10 * STUDIES, 8)).cumsum(axis=1)
    looks = [3, 5, 8]
    limits = stats.norm.isf(np.array(levels(looks)) / 2)
    crossed = np.abs(scores[:, np.array(looks) - 1]) / np.sqrt(looks) > limits
    assert crossed.any(axis=1).mean() == pytest.approx(0.05, abs=0.002)


def test_a_against_a_is_decided_falsely_in_5_percent_of_studies_with_registered_looks() -> None:
    """The t-tests of few seeds against these levels: the early levels are so small that the error stays near alpha."""
    assert false_positives([3, 5, 8], levels([3, 5, 8])) == pytest.approx(0.05, abs=0.008)


@pytest.mark.parametrize(("last", "error"), [(5, 0.10), (10, 0.17), (20, 0.23)])
def test_a_against_a_is_decided_falsely_far_more_often_where_seeds_are_added_until_it_is(
    last: int, error: float
) -> None:
    looks = list(range(3, last + 1))
    assert false_positives(looks, [0.05] * len(looks)) == pytest.approx(error, abs=0.015)


def test_looks_that_do_not_rise_are_refused() -> None:
    for looks in ([], [3, 3], [0, 2], [5, 3]):
        with pytest.raises(ValueError, match="give rising numbers of seeds"):
            levels(looks)


def false_positives(looks: list[int], tested_at: list[float]) -> float:
    a, b = np.random.default_rng(1).normal(size=(2, STUDIES, looks[-1]))
    found = [paired(a[:, :n], b[:, :n]).p() < level for n, level in zip(looks, tested_at, strict=True)]
    return float(np.any(found, axis=0).mean())
