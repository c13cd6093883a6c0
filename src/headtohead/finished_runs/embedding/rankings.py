"""The best of many scores, and rankings put in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from headtohead.finished_runs.embedding.judgements import Grades
from headtohead.metrics.labels import MRR, NDCG, RECALL


@dataclass(frozen=True)
class DocumentRanking:
    """Documents by number, the best first; of equal scores, the lower number first."""

    documents: Int[np.ndarray, " K"]
    scores: Float[np.ndarray, " K"]

    def __len__(self) -> int:
        return len(self.documents)

    def cut(self, depth: int) -> DocumentRanking:
        return DocumentRanking(self.documents[:depth], self.scores[:depth])


def best(scores: np.ndarray, depth: int, documents: np.ndarray | None = None) -> DocumentRanking:
    """Return the `depth` highest of one query's scores, of these documents where they are not all."""
    numbers = np.arange(len(scores)) if documents is None else documents
    candidates = np.arange(len(scores))
    if depth < len(scores):
        limit = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        candidates = np.flatnonzero(scores >= limit)
    order = candidates[np.lexsort((numbers[candidates], -scores[candidates]))][:depth]
    return DocumentRanking(numbers[order].astype(np.int64), scores[order].astype(np.float64))


def merged(first: DocumentRanking, second: DocumentRanking, depth: int) -> DocumentRanking:
    """Merge two rankings of different documents by the same score."""
    documents, scores = (
        np.concatenate([getattr(one, name) for one in (first, second)]) for name in ("documents", "scores")
    )
    return best(scores, depth, documents)


def reordered(ranking: DocumentRanking, scores: np.ndarray) -> DocumentRanking:
    """Return the first documents of a ranking by other scores, one for each of them; those beyond keep their places
    below."""
    first = best(scores, len(scores), ranking.documents[: len(scores)])
    rest = ranking.documents[len(scores) :]
    lowest = float(scores.min()) if len(scores) else 0.0
    below = lowest - 1 - np.arange(len(rest), dtype=np.float64)
    return DocumentRanking(np.concatenate([first.documents, rest]), np.concatenate([first.scores, below]))


# How good a ranking is: recall@k, MRR@k, and nDCG@k (Järvelin and Kekäläinen 2002,
# https://doi.org/10.1145/582415.582418) with the grade itself as the gain, as trec_eval has it.


MEASURES = (RECALL, MRR, NDCG)


def measures_of(ranking: DocumentRanking, grades: Grades, cutoffs: Sequence[int]) -> dict[str, float]:
    """Return the measures of one query: `recall@10` is the share of relevant documents among the first ten, `mrr@10`
    one over the rank of the first relevant one, or 0, `ndcg@10` the discounted gain as a share of the best possible
    one."""
    gains = np.array([grades.get(int(document), 0.0) for document in ranking.documents])
    ideal = np.sort(list(grades.values()))[::-1]
    hits = np.flatnonzero(gains > 0)
    data = {}
    for k in cutoffs:
        data[f"{RECALL.name}@{k}"] = float((gains[:k] > 0).sum() / len(grades))
        data[f"{MRR.name}@{k}"] = float(1 / (hits[0] + 1)) if len(hits) and hits[0] < k else 0.0
        data[f"{NDCG.name}@{k}"] = _discounted(gains[:k]) / _discounted(ideal[:k])
    return data


def measured(
    rankings: Sequence[DocumentRanking], grades: Sequence[Grades], cutoffs: Sequence[int]
) -> dict[str, np.ndarray]:
    """Return each measure of each query."""
    rows = [measures_of(ranking, own, cutoffs) for ranking, own in zip(rankings, grades, strict=True)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _discounted(gains: np.ndarray) -> float:
    return float((gains / np.log2(np.arange(2, len(gains) + 2))).sum())


def chance(grades: Sequence[Grades], cutoffs: Sequence[int], num_documents: int) -> dict[str, float]:
    """Return the expected measures of documents in random order."""
    measures = dict.fromkeys((f"{metric.name}@{k}" for k in cutoffs for metric in MEASURES), 0.0)
    for own in grades:
        ideal, relevant = np.sort(list(own.values()))[::-1], len(own)
        for k in cutoffs:
            seen = min(k, num_documents)
            ranks = np.arange(seen)
            # None of the documents before a rank is relevant, and the one there is.
            missed = np.cumprod(np.concatenate([[1.0], 1 - relevant / (num_documents - ranks[:-1])]))
            first = np.clip(missed, 0, 1) * relevant / (num_documents - ranks)
            measures[f"{RECALL.name}@{k}"] += seen / num_documents
            measures[f"{MRR.name}@{k}"] += float((first / (ranks + 1)).sum())
            measures[f"{NDCG.name}@{k}"] += _discounted(np.full(seen, ideal.sum() / num_documents)) / _discounted(
                ideal[:k]
            )
    return {name: value / len(grades) for name, value in measures.items()}
