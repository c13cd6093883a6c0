"""Queries, and which documents are relevant to each: TREC's qrels, or tab-separated tables such as BEIR's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from headtohead.data.contracts import DataError
from headtohead.data.files import decoded, existing
from headtohead.examining.retrieval.collection import Collection, Reading, digest_of, table_rows

_HEADS = ("query-id", "query_id", "qid", "query")
"""What a first line begins with that names columns (https://huggingface.co/datasets/BeIR/scifact-qrels)."""
Grades = Mapping[int, float]
"""Of the relevant documents of a query, by number; all above 0."""


@dataclass(frozen=True)
class Judged:
    """Queries that have something to find, and what that is."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    grades: tuple[Grades, ...]
    remarks: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def digest(self) -> str:
        told = (f"{sorted(grades.items())}" for grades in self.grades)
        return digest_of((*self.ids, *self.texts, *told))


def read_judged(queries: str, relevant: str, collection: Collection) -> Judged:
    """Raises DataError where a file cannot be read, names a document that there is none of, or nothing is judged."""
    texts = read_queries(queries)
    judged: dict[str, dict[int, float]] = {}
    strangers = set()
    file = existing(relevant, "--relevant", "a file of QUERY DOCUMENT GRADE lines, or TREC's qrels")
    for line, query, document, grade in _relevant(file):
        if query not in texts:
            strangers.add(query)
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
    kept = [name for name in texts if name in judged]
    remarks = []
    if len(kept) < len(texts):
        remarks.append(f"{len(texts) - len(kept)} of {len(texts)} queries have no relevant document, and are left out")
    if strangers:
        remarks.append(f"{len(strangers)} queries of {file.name} are not among the queries, and are left out")
    return Judged(
        tuple(kept), tuple(texts[name] for name in kept), tuple(judged[name] for name in kept), tuple(remarks)
    )


def read_queries(path: str) -> dict[str, str]:
    """By id: a table with columns of ids and texts, ID<TAB>TEXT lines, or a query per line, whose id is its number."""
    file = existing(path, "--queries", "a file with a query per line, ID<TAB>TEXT lines, or a .csv or .jsonl file")
    found = list(_queries(file))
    texts = dict(found)
    if not found:
        raise DataError(f"--queries {path} holds no query: give one per line")
    if len(texts) < len(found):
        ids = [name for name, _ in found]
        twice = next(name for name in ids if ids.count(name) > 1)
        raise DataError(f"--queries {path}: two queries have the id {twice!r}; give each its own")
    return texts


def _queries(file: Path) -> Iterator[tuple[str, str]]:
    if file.suffix.lower() in (".csv", ".json", ".jsonl"):
        yield from table_rows(file, Reading())
        return
    for number, line in _lines(file):
        name, tab, text = line.partition("\t")
        if tab and name.strip().lower() in (*_HEADS, "id", "_id") and number == 1:
            continue
        yield (name.strip(), text.strip()) if tab else (str(number), line.strip())


def _relevant(file: Path) -> Iterator[tuple[int, str, str, float]]:
    """Line, query, document, grade."""
    for number, line in _lines(file):
        fields = [part.strip() for part in line.split("\t")] if "\t" in line else line.split()
        if number == 1 and fields[0].lower() in _HEADS:
            continue
        query, document, grade = _of_fields(fields, file, number)
        yield number, query, document, grade


def _of_fields(fields: Sequence[str], file: Path, number: int) -> tuple[str, str, float]:
    """QUERY DOCUMENT, QUERY DOCUMENT GRADE, or QUERY ITERATION DOCUMENT GRADE as in TREC's qrels."""
    if len(fields) == 2:
        return fields[0], fields[1], 1.0
    try:
        if len(fields) in (3, 4):
            return fields[0], fields[-2], float(fields[-1])
    except ValueError:
        pass
    raise DataError(
        f"{file}, line {number} is not QUERY DOCUMENT [GRADE], nor QUERY 0 DOCUMENT GRADE as in TREC's qrels; a grade "
        "is a number, and ids with blanks in them need tabs between the fields"
    )


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    text = decoded(file, "utf-8", may_differ=False).removeprefix("\ufeff")
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())
