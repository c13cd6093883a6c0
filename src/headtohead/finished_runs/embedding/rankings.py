"""The best of many scores, rankings put in another order, and what they are judged by: queries, and which documents are
relevant to each, as tab-separated lines like those of BEIR's tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from headtohead.data.data_source import DataError
from headtohead.data.sources.local_files import decoded, existing_path
from headtohead.files.safe_read import lines_of
from headtohead.finished_runs.embedding.collection import Collection, ReadOptions, digest_of, table_rows
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


_HEADS = ("query-id", "query_id", "qid", "query")
"""The beginnings of a first line that names columns (https://huggingface.co/datasets/BeIR/scifact-qrels)."""
Grades = Mapping[int, float]
"""The grades of the relevant documents of a query, by number; all above 0."""


@dataclass(frozen=True)
class QueriesWithJudgements:
    """Queries that have something to find, and what that is."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    grades: tuple[Grades, ...]
    remarks: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def digest(self) -> str:
        lines = (f"{sorted(grades.items())}" for grades in self.grades)
        return digest_of((*self.ids, *self.texts, *lines))


def read_judged(queries: str, relevant: str, collection: Collection) -> QueriesWithJudgements:
    """Raises DataError where a file cannot be read, names a document that there is none of, or nothing is judged."""
    texts = read_queries(queries)
    judged: dict[str, dict[int, float]] = {}
    unknown_ids = set()
    file = existing_path(relevant, "--relevant", "a file of QUERY<TAB>DOCUMENT<TAB>GRADE lines")
    for line, query, document, grade in _relevant(file):
        if query not in texts:
            unknown_ids.add(query)
            continue
        if document not in collection.numbers:
            raise DataError(
                f"{file}, line {line}: there is no document {document!r} in the collection, whose ids are such as "
                f"{collection.ids[0]!r}: correct it, or the column of ids (--id-column)"
            )
        if grade > 0:
            judged.setdefault(query, {})[collection.numbers[document]] = grade
    if not judged:
        raise DataError(f"{file} names no relevant document of any query of {queries}: their ids must be the same")
    names = [name for name in texts if name in judged]
    remarks = []
    if len(names) < len(texts):
        remarks.append(f"{len(texts) - len(names)} of {len(texts)} queries have no relevant document, and are left out")
    if unknown_ids:
        remarks.append(f"{len(unknown_ids)} queries of {file.name} are not among the queries, and are left out")
    return QueriesWithJudgements(
        tuple(names),
        tuple(texts[name] for name in names),
        tuple(judged[name] for name in names),
        tuple(remarks),
    )


def read_queries(path: str) -> dict[str, str]:
    """Read queries by id: a table with columns of ids and texts, ID<TAB>TEXT lines, or a query per line, whose id is
    its number."""
    file = existing_path(path, "--queries", "a file with a query per line, ID<TAB>TEXT lines, or a .csv or .jsonl file")
    queries = list(_queries(file))
    texts = dict(queries)
    if not queries:
        raise DataError(f"--queries {path} holds no query: give one per line")
    if len(texts) < len(queries):
        ids = [name for name, _ in queries]
        twice = next(name for name in ids if ids.count(name) > 1)
        raise DataError(f"--queries {path}: two queries have the id {twice!r}; give each its own")
    return texts


def _queries(file: Path) -> Iterator[tuple[str, str]]:
    if file.suffix.lower() in (".csv", ".json", ".jsonl"):
        yield from table_rows(file, ReadOptions())
        return
    for number, line in _lines(file):
        name, tab, text = line.partition("\t")
        if tab and name.strip().lower() in (*_HEADS, "id", "_id") and number == 1:
            continue
        yield (name.strip(), text.strip()) if tab else (str(number), line.strip())


def _relevant(file: Path) -> Iterator[tuple[int, str, str, float]]:
    """Line, query, document, grade."""
    for number, line in _lines(file):
        fields = [part.strip() for part in line.split("\t")]
        if number == 1 and fields[0].lower() in _HEADS:
            continue
        query, document, grade = _of_fields(fields, file, number)
        yield number, query, document, grade


def _of_fields(fields: Sequence[str], file: Path, number: int) -> tuple[str, str, float]:
    """Return query, document and grade of a line; a line without a grade has the grade 1."""
    if len(fields) == 2:
        return fields[0], fields[1], 1.0
    try:
        if len(fields) == 3 and math.isfinite(grade := float(fields[2])):
            return fields[0], fields[1], grade
    except ValueError:
        pass
    raise DataError(
        f"{file}, line {number} is not QUERY<TAB>DOCUMENT or QUERY<TAB>DOCUMENT<TAB>GRADE with a number as the grade: "
        "put a tab between the fields"
    )


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    text = decoded(file, "utf-8", may_differ=False)
    return ((number, line) for number, line in enumerate(lines_of(text), 1) if line.strip())
