"""Looking early: the published boundaries, and what looking without them costs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from headtohead.comparison.statistics.means import paired
from headtohead.comparison.statistics.multiple_testing import alpha_spent, interim_levels

STUDIES = 20_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("looks", "published"),
    [
        ([1000, 2000], [2.963, 1.969]),
        ([1000, 2000, 3000], [3.710, 2.511, 1.993]),
        ([1000, 2000, 3000, 4000, 5000], [4.877, 3.357, 2.680, 2.290, 2.031]),
    ],
)
def test_boundaries_of_many_seeds_are_the_published_ones(looks: list[int], published: list[float]) -> None:
    """The published boundaries are of the O'Brien-Fleming type after Lan and DeMets, two-sided 5 %, for normal
    scores."""
    ours = [float(stats.norm.isf(level / 2)) for level in interim_levels(looks)]
    assert ours == pytest.approx(published, abs=0.02)


def test_one_look_keeps_all_of_alpha() -> None:
    assert interim_levels([5], alpha=0.05) == pytest.approx([0.05], rel=1e-6)
    assert alpha_spent(1.0, 0.05) == pytest.approx(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("looks", [[3, 5, 8], [2, 3, 4, 5], [5, 10]])
def test_a_against_a_is_decided_falsely_in_5_percent_of_studies_with_registered_looks(looks: list[int]) -> None:
    """The t-tests of two to five seeds would err in 5.8 % with the boundaries of normal scores."""
    assert false_positives(looks, interim_levels(looks), studies=10 * STUDIES) == pytest.approx(0.05, abs=0.002)


@pytest.mark.slow
def test_a_family_that_is_looked_at_finds_something_where_nothing_is_in_5_percent_at_most() -> None:
    """Levels of a single contrast, divided by the size of the family, would let 5.2 % through."""
    looks, num_contrasts = [3, 5, 8], 6
    tested_at = [level / num_contrasts for level in interim_levels(looks, num_contrasts=num_contrasts)]
    each = false_positives(looks, tested_at, studies=10 * STUDIES)
    assert 0.0405 < 1 - (1 - each) ** num_contrasts < 0.0505


@pytest.mark.parametrize(("last", "error"), [(5, 0.10), (10, 0.17), (20, 0.23)])
def test_a_against_a_is_decided_falsely_far_more_often_where_seeds_are_added_until_it_is(
    last: int, error: float
) -> None:
    looks = list(range(3, last + 1))
    assert false_positives(looks, [0.05] * len(looks)) == pytest.approx(error, abs=0.015)


def test_looks_that_do_not_rise_are_refused() -> None:
    for looks in ([], [3, 3], [1, 2], [5, 3]):
        with pytest.raises(ValueError, match="give rising numbers of seeds"):
            interim_levels(looks)


def false_positives(looks: list[int], tested_at: list[float], studies: int = STUDIES) -> float:
    a, b = np.random.default_rng(1).normal(size=(2, studies, looks[-1]))
    result = [paired(a[:, :n], b[:, :n]).p() < level for n, level in zip(looks, tested_at, strict=True)]
    return float(np.any(result, axis=0).mean())
