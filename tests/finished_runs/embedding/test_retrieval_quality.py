"""Recall, MRR and nDCG by hand, against scikit-learn, and against all orders there are."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from headtohead.finished_runs.embedding.rankings import DocumentRanking, chance, measured, measures_of


def ranked(*documents: int) -> DocumentRanking:
    return DocumentRanking(np.array(documents, dtype=np.int64), -np.arange(len(documents), dtype=np.float64))


def test_measures_are_those_worked_out_by_hand() -> None:
    """Documents 7 and 3 are relevant, 7 twice as much; 3 is second and 7 fourth."""
    result = measures_of(ranked(1, 3, 2, 7), {7: 2.0, 3: 1.0, 9: 1.0}, [1, 2, 4])
    assert (result["recall@1"], result["recall@2"], result["recall@4"]) == (
        0,
        pytest.approx(1 / 3),
        pytest.approx(2 / 3),
    )
    assert (result["mrr@1"], result["mrr@2"], result["mrr@4"]) == (0, 0.5, 0.5)
    ideal = 2 + 1 / np.log2(3) + 1 / 2
    assert result["ndcg@4"] == pytest.approx((1 / np.log2(3) + 2 / np.log2(5)) / ideal)
    assert result["ndcg@2"] == pytest.approx((1 / np.log2(3)) / (2 + 1 / np.log2(3)))


def test_ndcg_is_that_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    for _ in range(30):
        grades, scores = draw.integers(0, 4, 20).astype(float), draw.permutation(20).astype(float)
        grades[draw.integers(20)] = 3.0
        own = {number: grade for number, grade in enumerate(grades) if grade > 0}
        order = np.argsort(-scores)
        for k in (1, 5, 10):
            result = measures_of(ranked(*order), own, [k])[f"ndcg@{k}"]
            assert result == pytest.approx(ndcg_score([grades], [scores], k=k))


def test_a_ranking_that_ends_early_has_found_what_it_holds() -> None:
    assert measures_of(ranked(5), {5: 1.0, 6: 1.0}, [10]) == {
        "recall@10": 0.5,
        "mrr@10": 1.0,
        "ndcg@10": pytest.approx(1 / (1 + 1 / np.log2(3))),
    }
    assert set(measures_of(ranked(), {5: 1.0}, [10]).values()) == {0.0}


def test_chance_is_the_mean_over_all_orders() -> None:
    grades = [{0: 1.0, 3: 2.0}, {4: 1.0}]
    orders = [ranked(*order) for order in permutations(range(5))]
    for own in grades:
        message = chance([own], [1, 3, 10], 5)
        every = measured(orders, [own] * len(orders), [1, 3, 10])
        assert message == pytest.approx({name: values.mean() for name, values in every.items()})
    both = chance(grades, [3], 5)
    assert both["mrr@3"] == pytest.approx(np.mean([chance([own], [3], 5)["mrr@3"] for own in grades]))
