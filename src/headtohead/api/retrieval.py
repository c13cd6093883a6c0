"""Finished runs as retrievers of texts, from Python: search, and measure next to BM25."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from headtohead.api.error_translation import python_errors, python_errors_with
from headtohead.api.finished import RunLike, opened_run
from headtohead.api.result import Result
from headtohead.config.errors import ConfigurationError
from headtohead.finished_runs.embedding.collection import Collection, ReadOptions, Unit, read_collection
from headtohead.finished_runs.embedding.rankings import DocumentRanking, read_judged
from headtohead.finished_runs.embedding.retriever_comparison import (
    CUTOFFS,
    RetrieverComparison,
    compare_retrievers,
    comparison_data,
    write_records,
)
from headtohead.finished_runs.embedding.retrievers import BM25, ChosenRetrievers, RetrieverOptions
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.ranges import BatchSize, Count

Texts = str | Path | Sequence[str]
"""A folder of .txt and .md files, a file of lines, a table; or texts themselves."""


@dataclass(frozen=True)
class SearchResults(Result):
    """The documents that retrievers rank first, a row for each hit."""

    queries: Sequence[str]
    """The texts that were searched for."""
    chosen: ChosenRetrievers
    """The retrievers, and the collection that they search."""
    rankings: Mapping[str, Sequence[DocumentRanking]]
    """The ranking of each query, by the retriever's name."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        number = len(self.queries)
        by = " and ".join(self.rankings)
        return f"{number} quer{'y' if number == 1 else 'ies'} in {len(self.chosen.collection)} documents by {by}"

    def hits(self, query: int, retriever: str) -> list[dict[str, object]]:
        """Return the documents of one query, the best first: rank, document, score, text."""
        collection, ranking = self.chosen.collection, self.rankings[retriever][query]
        return [
            {"rank": rank, "document": collection.ids[number], "score": float(score), "text": collection.texts[number]}
            for rank, (number, score) in enumerate(zip(ranking.documents, ranking.scores, strict=True), 1)
        ]

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {"query": text, "retriever": name, **hit}
            for number, text in enumerate(self.queries)
            for name in self.rankings
            for hit in self.hits(number, name)
        ]


@python_errors_with(query="queries")
def search(
    retrievers: RunLike | Sequence[RunLike],
    texts: Texts,
    queries: str | Sequence[str],
    *,
    top: Count = 10,
    rerank: Count | None = None,
    unit: Unit | None = None,
    text_column: Sequence[str] = (),
    id_column: str | None = None,
    pooling: Literal["mean", "cls", "last"] | None = None,
    batch_size: BatchSize = 64,
    trust: Sequence[str] = (),
) -> SearchResults:
    """Search texts by the vectors of finished runs: `search(record, "notes", "how do birds sleep", top=3)`.

    `retrievers` are a run, or several, and "bm25". `texts` are a folder of .txt and .md files, a file of lines, a table
    with `text_column` and `id_column`, or a list; `unit` says what one document of a file is. With `rerank` the first
    documents of BM25 are put in the order of the run.
    """
    requested = [queries] if isinstance(queries, str) else list(queries)
    if not requested:
        raise ConfigurationError("there are no queries: give one or more, --query 'some words'")
    if blank := [query for query in requested if not query.strip()]:
        raise ConfigurationError(f"--query {blank[0]!r} is empty: give some words")
    options, reading = RetrieverOptions(pooling, batch_size, rerank), ReadOptions(unit, tuple(text_column), id_column)
    check_retrievers(retrievers, options)
    chosen = chosen_retrievers(retrievers, _collection(texts, reading), options, trust)
    return SearchResults(requested, chosen, {one.name: one.rank(requested, top) for one in chosen.requested})


@dataclass(frozen=True)
class MeasuredRetrieval(Result):
    """Retrievers measured on the same queries, a row for each."""

    comparison: RetrieverComparison
    """The values of each query, and the differences with their intervals."""
    chosen: ChosenRetrievers
    """The retrievers, and the collection that they search."""
    files: Sequence[Path]
    """The results in the folders of the runs."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        own = self.comparison
        return f"{own.queries} queries in {own.documents} documents, against {own.against}"

    @property
    def sentences(self) -> Sequence[str]:
        return self.comparison.remarks

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        rows: list[dict[str, object]] = comparison_data(self.comparison)["retrievers"]
        return rows


@python_errors
def measure_retrieval(
    retrievers: RunLike | Sequence[RunLike],
    texts: str | Path,
    queries: str | Path,
    *,
    relevant: str | Path,
    k: Sequence[Count] = CUTOFFS,
    against: str | None = None,
    rerank: Count | None = None,
    unit: Unit | None = None,
    text_column: Sequence[str] = (),
    id_column: str | None = None,
    pooling: Literal["mean", "cls", "last"] | None = None,
    batch_size: BatchSize = 64,
    trust: Sequence[str] = (),
) -> MeasuredRetrieval:
    """Measure runs as retrievers, recall@k, MRR@k and nDCG@k next to BM25, and write the results into their records.

    `queries` is a file of queries, `relevant` one with lines QUERY<TAB>DOCUMENT<TAB>GRADE. `against` names the
    retriever that others are compared with. The other arguments are those of `search`.
    """
    if not k:
        raise ConfigurationError("--k is empty: give how many of the first documents count, as 1 and 10")
    options, reading = RetrieverOptions(pooling, batch_size, rerank), ReadOptions(unit, tuple(text_column), id_column)
    check_retrievers(retrievers, options)
    collection = read_collection(str(texts), reading)
    judged = read_judged(str(queries), str(relevant), collection)
    chosen = chosen_retrievers(retrievers, collection, options, trust)
    result = compare_retrievers(chosen.measured, collection, judged, cutoffs=k, against=against)
    paths = {"texts": str(texts), "queries_file": str(queries), "relevant_file": str(relevant)}
    return MeasuredRetrieval(result, chosen, write_records(result, chosen.measured, paths))


def check_retrievers(retrievers: RunLike | Sequence[RunLike], options: RetrieverOptions) -> None:
    """Raise ConfigurationError where there are none, and for options that BM25 alone does not read."""
    several = _listed(retrievers)
    if not several:
        raise ConfigurationError("there are no retrievers: give a run's folder, or bm25")
    plain = RetrieverOptions()
    unread = [
        f"--{one.name.replace('_', '-')}"
        for one in fields(plain)
        if getattr(options, one.name) != getattr(plain, one.name)
    ]
    if unread and all(one == BM25 for one in several):
        words = " and ".join(unread)
        raise ConfigurationError(f"{words} would have no effect: bm25 has no vectors: name a run's folder too")


def _listed(retrievers: RunLike | Sequence[RunLike]) -> Sequence[RunLike]:
    return [retrievers] if isinstance(retrievers, str | Path | FinishedRun) else retrievers


def chosen_retrievers(
    retrievers: RunLike | Sequence[RunLike], collection: Collection, options: RetrieverOptions, trust: Sequence[str]
) -> ChosenRetrievers:
    """Return the retrievers of runs, or of their folders, and BM25 where it is named."""
    opened = [one if one == BM25 else opened_run(one, trust) for one in _listed(retrievers)]
    return ChosenRetrievers(opened, collection, options)


def _collection(texts: Texts, reading: ReadOptions) -> Collection:
    if isinstance(texts, str | Path):
        return read_collection(str(texts), reading)
    if not texts:
        raise ConfigurationError("there are no texts: give one or more, or a folder or file of them")
    for option, value in (
        ("unit", reading.unit),
        ("text-column", reading.text_columns),
        ("id-column", reading.id_column),
    ):
        if value:
            raise ConfigurationError(f"--{option} would have no effect: it is of files, and the texts are a list")
    return Collection(tuple(map(str, range(len(texts)))), tuple(texts))
