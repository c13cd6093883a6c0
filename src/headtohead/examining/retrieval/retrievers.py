"""What ranks documents for queries: BM25, a run's vectors, one re-ranked by another, several fused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from headtohead.examining.finished import FinishedRun
from headtohead.examining.retrieval.bm25 import Bm25
from headtohead.examining.retrieval.collection import Collection
from headtohead.examining.retrieval.cross_encoder import CrossEncoder
from headtohead.examining.retrieval.embedder import Embedder
from headtohead.examining.retrieval.index import Index
from headtohead.examining.retrieval.ordering import Ranking, fused, reordered

FUSED_DEPTH = 100
"""Documents of each ranking that are fused."""


class Retriever(ABC):
    """`stage` is what its results are filed under in the record of `run`; BM25 alone belongs to no run."""

    name: str
    stage: str
    run: FinishedRun | None

    @abstractmethod
    def rank(self, queries: Sequence[str], depth: int) -> list[Ranking]:
        """The best documents of each query, at most so many."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Of the index; of a model, nothing."""


class Lexical(Retriever):
    """BM25."""

    name, stage, run = "bm25", "", None

    def __init__(self, collection: Collection) -> None:
        self.bm25 = Bm25(collection.texts)

    def rank(self, queries: Sequence[str], depth: int) -> list[Ranking]:
        return [self.bm25.rank(query, depth) for query in queries]

    @property
    def num_bytes(self) -> int:
        return self.bm25.num_bytes


class Dense(Retriever):
    """The nearest vectors."""

    def __init__(self, name: str, stage: str, embedder: Embedder, index: Index) -> None:
        self.name, self.stage, self.embedder, self.index = name, stage, embedder, index
        self.run = embedder.run

    def rank(self, queries: Sequence[str], depth: int) -> list[Ranking]:
        return self.index.search(self.embedder.embed(queries), depth)

    @property
    def num_bytes(self) -> int:
        return self.index.num_bytes


class Reranked(Retriever):
    """The first documents of another ranking, by their cosines."""

    def __init__(self, first: Retriever, by: Dense, num_first: int) -> None:
        self.first, self.by, self.num_first = first, by, num_first
        self.name, self.stage, self.run = f"{first.name} > {by.name}", "retrieval_reranked", by.run

    def rank(self, queries: Sequence[str], depth: int) -> list[Ranking]:
        vectors = self.by.embedder.embed(queries)
        ranked = []
        for number, ranking in enumerate(self.first.rank(queries, max(depth, self.num_first))):
            chosen = ranking.documents[: self.num_first]
            cosines = self.by.index.cosines(vectors[number : number + 1], chosen)[0]
            ranked.append(reordered(ranking, cosines).cut(depth))
        return ranked

    @property
    def num_bytes(self) -> int:
        return self.first.num_bytes + self.by.num_bytes


class ReadTogether(Retriever):
    """The first documents of another ranking, each read together with the query."""

    def __init__(self, first: Retriever, by: CrossEncoder, collection: Collection, num_first: int, name: str) -> None:
        self.first, self.by, self.num_first, self.collection = first, by, num_first, collection
        self.name, self.stage, self.run = f"{first.name} read by {name}", "retrieval_judged", first.run

    def rank(self, queries: Sequence[str], depth: int) -> list[Ranking]:
        ranked = []
        for query, ranking in zip(queries, self.first.rank(queries, max(depth, self.num_first)), strict=True):
            texts = [self.collection.texts[number] for number in ranking.documents[: self.num_first]]
            scores = self.by.scores([query] * len(texts), texts) if texts else ranking.scores
            ranked.append(reordered(ranking, scores).cut(depth))
        return ranked

    @property
    def num_bytes(self) -> int:
        return self.first.num_bytes


class Fused(Retriever):
    """Two rankings as one, by the ranks alone."""

    def __init__(self, first: Retriever, second: Retriever) -> None:
        self.both = (first, second)
        self.name, self.stage, self.run = f"{first.name} + {second.name}", "retrieval_fused", second.run

    def rank(self, queries: Sequence[str], depth: int) -> list[Ranking]:
        found = [one.rank(queries, max(depth, FUSED_DEPTH)) for one in self.both]
        return [fused(pair, depth) for pair in zip(*found, strict=True)]

    @property
    def num_bytes(self) -> int:
        return sum(one.num_bytes for one in self.both)
