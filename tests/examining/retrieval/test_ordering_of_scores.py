"""The best of many scores, with ties; rankings merged, fused and put in another order."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.examining.retrieval.ordering import Ranking, best, fused, merged, reordered


def ranked(*documents: int) -> Ranking:
    return Ranking(np.array(documents, dtype=np.int64), -np.arange(len(documents), dtype=np.float64))


@pytest.mark.parametrize("depth", [1, 3, 7, 40, 60])
def test_the_best_are_those_of_a_full_sort_where_many_are_alike(depth: int) -> None:
    scores = np.random.default_rng(depth).integers(0, 5, 50).astype(np.float64)
    wanted = sorted(range(50), key=lambda number: (-scores[number], number))[:depth]
    found = best(scores, depth)
    assert found.documents.tolist() == wanted and found.scores.tolist() == scores[wanted].tolist()


def test_merging_parts_is_ranking_the_whole() -> None:
    scores = np.random.default_rng(0).integers(0, 4, 30).astype(np.float64)
    numbers = np.arange(30)
    parts = [best(scores[part], 6, numbers[part]) for part in (slice(0, 11), slice(11, 30))]
    found = merged(*parts, 6)
    assert found.documents.tolist() == best(scores, 6).documents.tolist()


def test_fusion_adds_reciprocals_of_ranks() -> None:
    """1: 1/61 + 1/62; 2: 1/62 + 1/61; 3: 1/63; 4: 1/63. Of equal ones the lower number is first."""
    found = fused([ranked(1, 2, 3), ranked(2, 1, 4)], 10)
    assert found.documents.tolist() == [1, 2, 3, 4]
    assert found.scores == pytest.approx([1 / 61 + 1 / 62, 1 / 61 + 1 / 62, 1 / 63, 1 / 63])
    assert fused([ranked(5, 6), ranked(6)], 1).documents.tolist() == [6]


def test_what_is_not_judged_again_stays_below_in_its_order() -> None:
    found = reordered(ranked(4, 5, 6, 7), np.array([0.1, 0.9]))
    assert found.documents.tolist() == [5, 4, 6, 7]
    assert np.all(np.diff(found.scores) < 0)
