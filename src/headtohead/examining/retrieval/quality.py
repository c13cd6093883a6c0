"""How good a ranking is: recall@k, MRR@k, and nDCG@k (Järvelin and Kekäläinen 2002,
https://doi.org/10.1145/582415.582418) with the grade itself as the gain, as trec_eval has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headtohead.examining.retrieval.judgements import Grades
from headtohead.examining.retrieval.ordering import Ranking
from headtohead.metrics.mrr import MRR
from headtohead.metrics.ndcg import NDCG
from headtohead.metrics.recall import RECALL

MEASURES = (RECALL, MRR, NDCG)


def measures_of(ranking: Ranking, grades: Grades, cutoffs: Sequence[int]) -> dict[str, float]:
    """Of one query: `recall@10` is the share of relevant documents among the first ten, `mrr@10` one over the rank of
    the first that is relevant, or 0, `ndcg@10` the discounted gain as a share of the best possible one."""
    gains = np.array([grades.get(int(document), 0.0) for document in ranking.documents])
    ideal = np.sort(list(grades.values()))[::-1]
    found = np.flatnonzero(gains > 0)
    told = {}
    for k in cutoffs:
        told[f"{RECALL.name}@{k}"] = float((gains[:k] > 0).sum() / len(grades))
        told[f"{MRR.name}@{k}"] = float(1 / (found[0] + 1)) if len(found) and found[0] < k else 0.0
        told[f"{NDCG.name}@{k}"] = _discounted(gains[:k]) / _discounted(ideal[:k])
    return told


def measured(rankings: Sequence[Ranking], grades: Sequence[Grades], cutoffs: Sequence[int]) -> dict[str, np.ndarray]:
    """Each measure of each query."""
    rows = [measures_of(ranking, own, cutoffs) for ranking, own in zip(rankings, grades, strict=True)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _discounted(gains: np.ndarray) -> float:
    return float((gains / np.log2(np.arange(2, len(gains) + 2))).sum())


def chance(grades: Sequence[Grades], cutoffs: Sequence[int], num_documents: int) -> dict[str, float]:
    """What documents in any order get on average."""
    told = dict.fromkeys((f"{metric.name}@{k}" for k in cutoffs for metric in MEASURES), 0.0)
    for own in grades:
        ideal, relevant = np.sort(list(own.values()))[::-1], len(own)
        for k in cutoffs:
            seen = min(k, num_documents)
            ranks = np.arange(seen)
            # None of the documents before a rank is relevant, and the one there is.
            missed = np.cumprod(np.concatenate([[1.0], 1 - relevant / (num_documents - ranks[:-1])]))
            first = np.clip(missed, 0, 1) * relevant / (num_documents - ranks)
            told[f"{RECALL.name}@{k}"] += seen / num_documents
            told[f"{MRR.name}@{k}"] += float((first / (ranks + 1)).sum())
            told[f"{NDCG.name}@{k}"] += _discounted(np.full(seen, ideal.sum() / num_documents)) / _discounted(ideal[:k])
    return {name: value / len(grades) for name, value in told.items()}
