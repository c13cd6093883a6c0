"""Expected best of k: unbiased, and finite only where divergences cannot be the best."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from headtohead.comparison.analyses.tuning_summary import expected_best


@pytest.mark.parametrize("larger_is_better", [True, False])
def test_it_is_the_mean_of_the_best_of_all_choices(larger_is_better: bool) -> None:
    values = [0.3, 0.9, 0.5, 0.5, 0.1]
    best = max if larger_is_better else min
    expected = [np.mean([best(chosen) for chosen in combinations(values, k)]) for k in range(1, 6)]
    assert expected_best(values, larger_is_better=larger_is_better) == pytest.approx(expected)


def test_it_is_unbiased() -> None:
    drawn = np.random.default_rng(0).random((4000, 6))
    mean = np.mean([expected_best(list(values), larger_is_better=True) for values in drawn], axis=0)
    assert mean == pytest.approx(np.arange(1, 7) / np.arange(2, 8), abs=0.01)


def test_a_diverged_trial_is_infinitely_bad_until_it_cannot_be_the_best() -> None:
    result = expected_best([1.0, 2.0, None], larger_is_better=False)
    assert np.isinf(result[0])
    assert result[1:] == pytest.approx([(1 + 1 + 2) / 3, 1.0])
