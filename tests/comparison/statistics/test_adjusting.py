"""Families of contrasts."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from headtohead.comparison.statistics.multiple_testing import Adjustment, adjusted


def test_holm_multiplies_by_the_contrasts_that_are_left() -> None:
    assert adjusted([0.01, 0.04, 0.03], "holm") == pytest.approx([0.03, 0.06, 0.06])


def test_benjamini_and_hochberg_multiply_by_the_share_of_smaller_ones() -> None:
    assert adjusted([0.01, 0.04, 0.03], "benjamini_hochberg") == pytest.approx([0.03, 0.04, 0.04])


@pytest.mark.slow
@pytest.mark.parametrize(("method", "theirs"), [("holm", "holm"), ("benjamini_hochberg", "fdr_bh")])
def test_adjusted_p_values_are_those_of_statsmodels(method: Adjustment, theirs: str) -> None:
    family = list(np.random.default_rng(0).random(7) ** 3)
    assert adjusted(family, method) == pytest.approx(multipletests(family, method=theirs)[1])


def test_a_contrast_without_p_value_counts_in_the_family() -> None:
    assert adjusted([0.02, None], "holm") == [pytest.approx(0.04), None]
    assert adjusted([], "holm") == []


def test_holm_lets_one_of_twenty_families_through() -> None:
    p_values = np.random.default_rng(0).random((2000, 5))
    wrong = [min(p for p in adjusted(list(family), "holm") if p is not None) < 0.05 for family in p_values]
    assert np.mean(wrong) == pytest.approx(0.05, abs=0.015)
