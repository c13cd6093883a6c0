"""Queries, and which documents are relevant to each: tab-separated lines as in BEIR's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from headtohead.data.data_source import DataError
from headtohead.data.sources.local_files import decoded, existing_path
from headtohead.finished_runs.embedding.collection import Collection, ReadOptions, digest_of, table_rows

_HEADS = ("query-id", "query_id", "qid", "query")
"""The beginnings of a first line that names columns (https://huggingface.co/datasets/BeIR/scifact-qrels)."""
Grades = Mapping[int, float]
"""The grades of the relevant documents of a query, by number; all above 0."""


@dataclass(frozen=True)
class JudgedQueries:
    """Queries that have something to find, and what that is."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    grades: tuple[Grades, ...]
    remarks: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def digest(self) -> str:
        lines = (f"{sorted(grades.items())}" for grades in self.grades)
        return digest_of((*self.ids, *self.texts, *lines))


def read_judged(queries: str, relevant: str, collection: Collection) -> JudgedQueries:
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
    return JudgedQueries(
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
        if len(fields) == 3:
            return fields[0], fields[1], float(fields[2])
    except ValueError:
        pass
    raise DataError(
        f"{file}, line {number} is not QUERY<TAB>DOCUMENT or QUERY<TAB>DOCUMENT<TAB>GRADE with a number as the grade: "
        "put a tab between the fields"
    )


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    text = decoded(file, "utf-8", may_differ=False).removeprefix("\ufeff")
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())
