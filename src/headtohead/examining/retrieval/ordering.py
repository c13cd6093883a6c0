"""The best of many scores, and several rankings as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

_RANK_CONSTANT = 60
"""Of reciprocal rank fusion, as its authors chose it."""


@dataclass(frozen=True)
class Ranking:
    """Documents by number, the best first; of equal scores, the lower number first."""

    documents: Int[np.ndarray, " K"]
    scores: Float[np.ndarray, " K"]

    def __len__(self) -> int:
        return len(self.documents)

    def cut(self, depth: int) -> Ranking:
        return Ranking(self.documents[:depth], self.scores[:depth])


def best(scores: np.ndarray, depth: int, documents: np.ndarray | None = None) -> Ranking:
    """The `depth` highest of one query's scores, of these documents where they are not all."""
    numbers = np.arange(len(scores)) if documents is None else documents
    candidates = np.arange(len(scores))
    if depth < len(scores):
        limit = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        candidates = np.flatnonzero(scores >= limit)
    order = candidates[np.lexsort((numbers[candidates], -scores[candidates]))][:depth]
    return Ranking(numbers[order].astype(np.int64), scores[order].astype(np.float64))


def merged(first: Ranking, second: Ranking, depth: int) -> Ranking:
    """Of two rankings of different documents by the same score."""
    documents, scores = (
        np.concatenate([getattr(one, name) for one in (first, second)]) for name in ("documents", "scores")
    )
    return best(scores, depth, documents)


def fused(rankings: Sequence[Ranking], depth: int) -> Ranking:
    """Reciprocal rank fusion, the sum of 1 / (60 + rank) (Cormack et al. 2009, https://doi.org/10.1145/1571941.1572114);
    a ranking gives nothing to a document that it does not hold."""
    documents = np.unique(np.concatenate([ranking.documents for ranking in rankings]))
    scores = np.zeros(len(documents))
    for ranking in rankings:
        places = np.searchsorted(documents, ranking.documents)
        scores[places] += 1 / (_RANK_CONSTANT + 1 + np.arange(len(ranking)))
    return best(scores, depth, documents)


def reordered(ranking: Ranking, scores: np.ndarray) -> Ranking:
    """The first documents of a ranking by other scores, one for each of them; those beyond keep their places below."""
    first = best(scores, len(scores), ranking.documents[: len(scores)])
    rest = ranking.documents[len(scores) :]
    lowest = float(scores.min()) if len(scores) else 0.0
    below = lowest - 1 - np.arange(len(rest), dtype=np.float64)
    return Ranking(np.concatenate([first.documents, rest]), np.concatenate([first.scores, below]))
