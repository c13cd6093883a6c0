"""Retrievers measured on the same queries, each against one of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headtohead.building.errors import ConfigurationError, unknown
from headtohead.comparing.statistics.resampling import Resampled, paired_bootstrap
from headtohead.examining.retrieval.collection import Collection, digest_of
from headtohead.examining.retrieval.judgements import Judged
from headtohead.examining.retrieval.quality import chance, measured
from headtohead.examining.retrieval.retrievers import Retriever
from headtohead.training.display import Display

CUTOFFS = (1, 10, 100)
_USUAL = 10
_TIMED = 16
"""Queries that are asked one at a time, to know how long one takes."""
_QUERIES_AT_ONCE = 64


@dataclass(frozen=True)
class Measured:
    """One retriever."""

    name: str
    stage: str
    run: str | None
    """Id of the run that it belongs to."""
    values: dict[str, np.ndarray]
    """Of each query, in their order."""
    milliseconds: float
    """For one query by itself, from its text to its ranking: the median."""
    num_bytes: int
    differences: dict[str, Resampled] = field(default_factory=dict)
    """From the one that it is compared with, with 95 % intervals over queries."""

    @property
    def means(self) -> dict[str, float]:
        return {name: float(values.mean()) for name, values in self.values.items()}


@dataclass(frozen=True)
class Comparison:
    """All retrievers on one set of queries."""

    documents: int
    queries: int
    cutoffs: tuple[int, ...]
    digest: str
    """Of documents, queries and what is relevant: the same where results may be compared."""
    against: str
    chance: dict[str, float]
    retrievers: tuple[Measured, ...]
    remarks: tuple[str, ...] = ()

    @property
    def telling(self) -> int:
        """The cutoff of the measures that look at ranks."""
        return _USUAL if _USUAL in self.cutoffs else max(self.cutoffs)


def compare(
    retrievers: Sequence[Retriever],
    collection: Collection,
    judged: Judged,
    *,
    cutoffs: Sequence[int] = CUTOFFS,
    against: str | None = None,
) -> Comparison:
    """`against` names a retriever, by default the first."""
    chosen = tuple(sorted(set(cutoffs)))
    names = [retriever.name for retriever in retrievers]
    if against is not None and against not in names:
        raise ConfigurationError(unknown(f"--against {against} is none of the retrievers", against, names))
    found = [_measured(retriever, judged, chosen) for retriever in retrievers]
    base = found[names.index(against) if against is not None else 0]
    return Comparison(
        documents=len(collection),
        queries=len(judged.ids),
        cutoffs=chosen,
        digest=digest_of((collection.digest, judged.digest)),
        against=base.name,
        chance=chance(judged.grades, chosen, len(collection)),
        retrievers=tuple(_against(one, base) for one in found),
        remarks=judged.remarks,
    )


def _measured(retriever: Retriever, judged: Judged, cutoffs: tuple[int, ...]) -> Measured:
    display = Display(f"searching by {retriever.name}", start=0, total=len(judged.texts), wanted=True, unit="queries")
    rankings = []
    try:
        for start in range(0, len(judged.texts), _QUERIES_AT_ONCE):
            rankings += retriever.rank(judged.texts[start : start + _QUERIES_AT_ONCE], cutoffs[-1])
            display.step(len(rankings))
    finally:
        display.close(len(rankings))
    return Measured(
        name=retriever.name,
        stage=retriever.stage,
        run=None if retriever.run is None else retriever.run.record.id,
        values=measured(rankings, judged.grades, cutoffs),
        milliseconds=_milliseconds(retriever, judged.texts, cutoffs[-1]),
        num_bytes=retriever.num_bytes,
    )


def _milliseconds(retriever: Retriever, queries: Sequence[str], depth: int) -> float:
    retriever.rank(queries[:1], depth)
    times = []
    for query in queries[:_TIMED]:
        started = time.perf_counter()
        retriever.rank([query], depth)
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times)


def _against(one: Measured, base: Measured) -> Measured:
    if one is base:
        return one
    return replace(
        one, differences={name: paired_bootstrap(one.values[name], base.values[name]) for name in one.values}
    )
