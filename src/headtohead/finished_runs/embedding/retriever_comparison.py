"""Retrievers measured on the same queries, each against one of them."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from headtohead.comparison.statistics.bootstrap import BootstrapInterval, paired_bootstrap
from headtohead.config.errors import ConfigurationError, unknown
from headtohead.files.atomic_write import replace_text
from headtohead.finished_runs.embedding.collection import Collection, digest_of
from headtohead.finished_runs.embedding.rankings import QueriesWithJudgements, chance, measured
from headtohead.finished_runs.embedding.retrievers import Dense, Retriever
from headtohead.finished_runs.evaluation.evaluation_results import FOLDER
from headtohead.metrics import own_metric
from headtohead.records.run_folder import RunFolder
from headtohead.records.strict_json import encode
from headtohead.training.callbacks.progress import ProgressLine

CUTOFFS = (1, 10, 100)
_USUAL = 10
_TIMED = 16
"""Queries that are asked one at a time, to know how long one takes."""
_QUERIES_AT_ONCE = 64


@dataclass(frozen=True)
class RetrieverResult:
    """One retriever."""

    name: str
    stage: str
    run: str | None
    """Id of the run that it belongs to."""
    values: dict[str, np.ndarray]
    """The values of each query, in their order."""
    milliseconds: float
    """The milliseconds for one query by itself, from its text to its ranking: the median."""
    num_bytes: int
    differences: dict[str, BootstrapInterval] = field(default_factory=dict)
    """The differences from the retriever that it is compared with, with 95 % intervals over queries."""

    @property
    def means(self) -> dict[str, float]:
        return {name: float(values.mean()) for name, values in self.values.items()}


@dataclass(frozen=True)
class RetrieverComparison:
    """All retrievers on one set of queries."""

    documents: int
    queries: int
    cutoffs: tuple[int, ...]
    digest: str
    """The digest of documents, queries and what is relevant: the same where results may be compared."""
    against: str
    chance: dict[str, float]
    retrievers: tuple[RetrieverResult, ...]
    remarks: tuple[str, ...] = ()

    @property
    def decisive_cutoff(self) -> int:
        """The cutoff of the measures that look at ranks."""
        return _USUAL if _USUAL in self.cutoffs else max(self.cutoffs)


def compare_retrievers(
    retrievers: Sequence[Retriever],
    collection: Collection,
    judged: QueriesWithJudgements,
    *,
    cutoffs: Sequence[int] = CUTOFFS,
    against: str | None = None,
) -> RetrieverComparison:
    """Compare the retrievers; `against` names one of them, by default the first."""
    chosen = tuple(sorted(set(cutoffs)))
    names = [retriever.name for retriever in retrievers]
    if against is not None and against not in names:
        raise ConfigurationError(unknown(f"--against {against} is not one of the retrievers", against, names))
    measured = [_measured(retriever, judged, chosen) for retriever in retrievers]
    base = measured[names.index(against) if against is not None else 0]
    return RetrieverComparison(
        documents=len(collection),
        queries=len(judged.ids),
        cutoffs=chosen,
        digest=digest_of((collection.digest, judged.digest)),
        against=base.name,
        chance=chance(judged.grades, chosen, len(collection)),
        retrievers=tuple(_against(one, base) for one in measured),
        remarks=judged.remarks,
    )


def _measured(retriever: Retriever, judged: QueriesWithJudgements, cutoffs: tuple[int, ...]) -> RetrieverResult:
    display = ProgressLine(
        f"searching by {retriever.name}", start=0, total=len(judged.texts), enabled=True, unit="queries"
    )
    rankings = []
    try:
        for start in range(0, len(judged.texts), _QUERIES_AT_ONCE):
            rankings += retriever.rank(judged.texts[start : start + _QUERIES_AT_ONCE], cutoffs[-1])
            display.step(len(rankings))
    finally:
        display.close(len(rankings))
    return RetrieverResult(
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


def _against(one: RetrieverResult, base: RetrieverResult) -> RetrieverResult:
    if one is base:
        return one
    return replace(
        one, differences={name: paired_bootstrap(one.values[name], base.values[name]) for name in one.values}
    )


def comparison_data(comparison: RetrieverComparison) -> dict[str, Any]:
    """Means, and differences with their intervals; numbers and lists alone."""
    data = {
        "documents": comparison.documents,
        "queries": comparison.queries,
        "digest": comparison.digest,
        "against": comparison.against,
        "chance": comparison.chance,
        "retrievers": [_row(one) for one in comparison.retrievers],
        "remarks": list(comparison.remarks),
    }
    plain: dict[str, Any] = encode(data, "retrieval")
    return plain


def write_records(
    comparison: RetrieverComparison, retrievers: Sequence[Retriever], paths: Mapping[str, str]
) -> list[Path]:
    """RUN/evaluations/retrieval-DIGEST.json for each run, and its results in its record: as stage `retrieval` what its
    vectors find by themselves, as `retrieval_reranked` what they make of BM25's first documents."""
    written = []
    for plain in retrievers:
        if not isinstance(plain, Dense) or plain.stage != "retrieval":
            continue
        run = plain.embedder.run
        own = [one for one in comparison.retrievers if one.run == run.record.id]
        data = comparison_data(comparison)
        rows = [row for row in data["retrievers"] if row["run"] in (None, run.record.id)]
        content = {"run": run.record.id, "pooling": plain.embedder.pooling, **paths, **data, "retrievers": rows}
        folder = run.folder / FOLDER
        folder.mkdir(exist_ok=True)
        path = folder / f"retrieval-{comparison.digest[:8]}.json"
        replace_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        _record(run.folder, own, comparison, path)
        written.append(path)
    return written


def _record(run: Path, own: Sequence[RetrieverResult], comparison: RetrieverComparison, path: Path) -> None:
    """A run that is still trained writes its record itself."""
    folder = RunFolder.open(run)
    if folder.is_live():
        return
    with folder.claimed():
        record = folder.read_record_as_written()
        for one in own:
            record.metrics[one.stage] = one.means
            record.links[one.stage] = path.relative_to(run).as_posix()
        record.baselines |= comparison.chance
        record.scales |= {name: metric for name in comparison.chance if (metric := own_metric(name)) is not None}
        folder.write_record(record)


def _row(one: RetrieverResult) -> dict[str, Any]:
    return {
        "name": one.name,
        "run": one.run,
        "stage": one.stage,
        **one.means,
        "milliseconds_per_query": one.milliseconds,
        "index_bytes": one.num_bytes,
        "differences": {name: asdict(difference) for name, difference in one.differences.items()},
    }
