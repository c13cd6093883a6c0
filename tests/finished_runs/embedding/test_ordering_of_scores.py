"""The best of many scores, with ties; rankings merged and put in another order."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.finished_runs.embedding.rankings import DocumentRanking, best, merged, reordered


def ranked(*documents: int) -> DocumentRanking:
    return DocumentRanking(np.array(documents, dtype=np.int64), -np.arange(len(documents), dtype=np.float64))


@pytest.mark.parametrize("depth", [1, 3, 7, 40, 60])
def test_the_best_are_those_of_a_full_sort_where_many_are_alike(depth: int) -> None:
    scores = np.random.default_rng(depth).integers(0, 5, 50).astype(np.float64)
    expected = sorted(range(50), key=lambda number: (-scores[number], number))[:depth]
    result = best(scores, depth)
    assert result.documents.tolist() == expected and result.scores.tolist() == scores[expected].tolist()


def test_merging_parts_is_ranking_the_whole() -> None:
    scores = np.random.default_rng(0).integers(0, 4, 30).astype(np.float64)
    numbers = np.arange(30)
    first, second = (best(scores[part], 6, numbers[part]) for part in (slice(0, 11), slice(11, 30)))
    result = merged(first, second, 6)
    assert result.documents.tolist() == best(scores, 6).documents.tolist()


def test_what_is_not_judged_again_stays_below_in_its_order() -> None:
    result = reordered(ranked(4, 5, 6, 7), np.array([0.1, 0.9]))
    assert result.documents.tolist() == [5, 4, 6, 7]
    assert np.all(np.diff(result.scores) < 0)
