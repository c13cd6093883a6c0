"""Rank documents for queries, by BM25, by a run's vectors, or by BM25 with re-ranking by a run; and read from the
command's options which of these are requested.

Okapi BM25 (Robertson and Zaragoza 2009, https://doi.org/10.1561/1500000019): words that are rare, and often here.

score(q, d) = sum over words w of q of idf(w) tf (k1 + 1) / (tf + k1 (1 - b + b length(d) / mean length)), with
idf(w) = log(1 + (N - n + 1/2) / (n + 1/2)), which is never negative, as in Lucene (Kamphuis et al. 2020,
https://doi.org/10.1007/978-3-030-45442-5_4). What a word adds to each text is known before any query (Lù 2024,
https://arxiv.org/abs/2407.03618).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headtohead.config.errors import ConfigurationError
from headtohead.finished_runs.embedding.collection import Collection
from headtohead.finished_runs.embedding.embedder import BATCH_SIZE, Embedder
from headtohead.finished_runs.embedding.rankings import DocumentRanking, best, reordered
from headtohead.finished_runs.embedding.vector_index import Index, build
from headtohead.finished_runs.finished_run import FinishedRun


class Retriever(ABC):
    """`stage` is what its results are filed under in the record of `run`; BM25 alone belongs to no run."""

    name: str
    stage: str
    run: FinishedRun | None

    @abstractmethod
    def rank(self, queries: Sequence[str], depth: int) -> list[DocumentRanking]:
        """Return the best documents of each query, at most so many."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Return the size of the index, without the model."""


class Lexical(Retriever):
    """BM25."""

    name, stage, run = "bm25", "", None

    def __init__(self, collection: Collection) -> None:
        self.bm25 = Bm25(collection.texts)

    def rank(self, queries: Sequence[str], depth: int) -> list[DocumentRanking]:
        return [self.bm25.rank(query, depth) for query in queries]

    @property
    def num_bytes(self) -> int:
        return self.bm25.num_bytes


class Dense(Retriever):
    """The nearest vectors."""

    def __init__(self, name: str, stage: str, embedder: Embedder, index: Index) -> None:
        self.name, self.stage, self.embedder, self.index = name, stage, embedder, index
        self.run = embedder.run

    def rank(self, queries: Sequence[str], depth: int) -> list[DocumentRanking]:
        return self.index.search(self.embedder.embed(queries), depth)

    @property
    def num_bytes(self) -> int:
        return self.index.num_bytes


class Reranked(Retriever):
    """The first documents of another ranking, by their cosines."""

    def __init__(self, first: Retriever, by: Dense, num_first: int) -> None:
        self.first, self.by, self.num_first = first, by, num_first
        self.name, self.stage, self.run = f"{first.name} > {by.name}", "retrieval_reranked", by.run

    def rank(self, queries: Sequence[str], depth: int) -> list[DocumentRanking]:
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


BM25 = "bm25"


@dataclass(frozen=True)
class RetrieverOptions:
    """Beside the plain search by cosine."""

    pooling: str | None = None
    batch_size: int = BATCH_SIZE
    rerank: int | None = None
    """So many documents of BM25 are put in the order of each run's cosines."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigurationError(f"--batch-size {self.batch_size} must be at least 1")


class ChosenRetrievers:
    """The retrievers of some runs, and of BM25 where it is named, over one collection; what several need is made
    once."""

    def __init__(
        self, retrievers: Sequence[FinishedRun | str], collection: Collection, options: RetrieverOptions
    ) -> None:
        self.collection, self.options = collection, options
        runs = [one for one in retrievers if isinstance(one, FinishedRun)]
        self.names_bm25 = len(runs) < len(retrievers)
        self.plain = [self._dense(run, name) for run, name in zip(runs, _names(runs), strict=True)]

    @cached_property
    def lexical(self) -> Lexical:
        return Lexical(self.collection)

    @cached_property
    def built(self) -> list[Reranked]:
        """The re-ranking of BM25 by each run, where the options ask for it."""
        depth = self.options.rerank
        return [] if depth is None else [Reranked(self.lexical, one, depth) for one in self.plain]

    @property
    def measured(self) -> list[Retriever]:
        """Return all of them, BM25 first."""
        return [self.lexical, *self.plain, *self.built]

    @property
    def requested(self) -> Sequence[Retriever]:
        """Return the retrievers that the options request, else the runs as they are."""
        plain = [*([self.lexical] if self.names_bm25 else []), *self.plain]
        return self.built or plain

    def _dense(self, run: FinishedRun, name: str) -> Dense:
        embedder = Embedder(run, self.options.pooling, self.options.batch_size)
        return Dense(name, "retrieval", embedder, build(embedder, self.collection))


def _names(runs: Sequence[FinishedRun]) -> list[str]:
    """Return the names of the runs, or their ids if two share a name or one is called like BM25."""
    names = [run.record.name or run.record.id for run in runs]
    return [
        run.record.id if names.count(name) > 1 or name == BM25 else name for run, name in zip(runs, names, strict=True)
    ]


K1, B = 1.2, 0.75
"""Lucene's."""
_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Letters and digits of any script, in lower case; nothing is stemmed, and no word is left out."""
    return _WORD.findall(text.lower())


class Bm25:
    """Words by number, and for each the texts that it is in and what it adds to their scores."""

    def __init__(self, texts: Sequence[str], *, k1: float = K1, b: float = B) -> None:
        self.num_texts = len(texts)
        self.numbers: dict[str, int] = {}
        words, holders, counts, lengths = [], [], [], np.zeros(len(texts))
        for index, text in enumerate(texts):
            occurrences = Counter(words_of(text))
            lengths[index] = occurrences.total()
            for word, count in occurrences.items():
                words.append(self.numbers.setdefault(word, len(self.numbers)))
                holders.append(index)
                counts.append(count)
        numbered, tf = np.array(words, dtype=np.int64), np.array(counts, dtype=np.float64)
        order = np.argsort(numbered, kind="stable")
        holding = np.bincount(numbered, minlength=len(self.numbers))
        idf = np.log1p((self.num_texts - holding + 0.5) / (holding + 0.5))
        self.texts = np.array(holders, dtype=np.int32)[order]
        length = lengths / max(lengths.mean(), 1e-9)
        norm = k1 * (1 - b + b * length[self.texts])
        added = idf[numbered[order]] * tf[order] * (k1 + 1) / (tf[order] + norm)
        self.added = added.astype(np.float32)
        self.starts = np.concatenate([[0], np.cumsum(holding)])

    @property
    def num_bytes(self) -> int:
        """Lists and words."""
        spelt = sum(len(word.encode()) for word in self.numbers)
        count: int = self.texts.nbytes + self.added.nbytes + self.starts.nbytes + spelt
        return count

    def scores(self, query: str) -> np.ndarray:
        """Return the score of every text; a word that the query has twice counts twice."""
        scores = np.zeros(self.num_texts)
        for word, count in Counter(words_of(query)).items():
            number = self.numbers.get(word)
            if number is not None:
                span = slice(self.starts[number], self.starts[number + 1])
                scores[self.texts[span]] += count * self.added[span].astype(np.float64)
        return scores

    def rank(self, query: str, depth: int) -> DocumentRanking:
        """Texts that share no word with the query are not found."""
        scores = self.scores(query)
        holding = np.flatnonzero(scores > 0)
        return best(scores[holding], depth, holding)
