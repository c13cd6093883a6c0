"""Texts, queries and judgements as files have them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.data.data_source import DataError
from headtohead.finished_runs.embedding.collection import Collection, ReadOptions, read_collection
from headtohead.finished_runs.embedding.rankings import read_judged, read_queries

TWO = Collection(("d1", "a b.txt"), ("one", "two"))


def folder(at: Path) -> Path:
    (at / "deep").mkdir()
    (at / "b.txt").write_text("one\ntwo\n\n \nthree\n")
    (at / "deep" / "a.md").write_text("\n\n# Head\nbody\n\nmore\n")
    (at / "blank.txt").write_text(" \n")
    (at / "other.py").write_text("x = 1")
    return at


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (None, {"b.txt": "one\ntwo\n\n \nthree", "deep/a.md": "# Head\nbody\n\nmore"}),
        (
            "paragraph",
            {"b.txt:1": "one\ntwo", "b.txt:5": "three", "deep/a.md:3": "# Head\nbody", "deep/a.md:6": "more"},
        ),
        (
            "line",
            {
                "b.txt:1": "one", "b.txt:2": "two", "b.txt:5": "three",
                "deep/a.md:3": "# Head", "deep/a.md:4": "body", "deep/a.md:6": "more",
            },
        ),
    ],
)  # fmt: skip
def test_a_folder_is_read_by_file_paragraph_or_line(tmp_path: Path, unit: str | None, expected: dict[str, str]) -> None:
    result = read_collection(str(folder(tmp_path)), ReadOptions(unit=unit))
    assert dict(zip(result.ids, result.texts, strict=True)) == expected


def test_a_file_by_itself_is_read_by_lines(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("one\n\ntwo\n")
    assert read_collection(str(file), ReadOptions()).ids == ("notes.txt:1", "notes.txt:3")


def test_columns_of_tables_are_joined_and_ids_are_found(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"_id": "x", "title": "Birds", "text": "sleep"}\n{"_id": 7, "title": "", "text": "wake"}\n')
    result = read_collection(str(corpus), ReadOptions(text_columns=("title", "text")))
    assert (result.ids, result.texts) == (("x", "7"), ("Birds sleep", "wake"))
    assert read_collection(str(corpus), ReadOptions()).texts == ("sleep", "wake")
    table = tmp_path / "table.csv"
    table.write_text('name,words\nq,"a, b"\nr,c\n')
    result = read_collection(str(table), ReadOptions(text_columns=("words",)))
    assert (result.ids, result.texts) == (("2", "3"), ("a, b", "c"))
    assert read_collection(str(table), ReadOptions(text_columns=("words",), id_column="name")).ids == ("q", "r")


def test_the_digest_is_of_every_id_and_text() -> None:
    digests = {Collection(ids, texts).digest for ids, texts in [
        (("a", "b"), ("c", "d")), (("a", "b"), ("cd", "")), (("b", "a"), ("c", "d")), (("a",), ("c",)),
    ]}  # fmt: skip
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("name", "content", "reading", "sentence"),
    [
        ("a.txt", " ", ReadOptions(), "holds no text"),
        ("a.pdf", "x", ReadOptions(), "not a kind of file that is read"),
        ("a.txt", "x", ReadOptions(text_columns=("t",)), "name columns of a table"),
        ("a.csv", "text\nx\n", ReadOptions(unit="line"), "whose rows are the documents"),
        ("a.csv", "id,text\nx,a\nx,b\n", ReadOptions(), "two documents have the id 'x'"),
        ("a.csv", "one,two\nx,a\n", ReadOptions(), "name the one with the text, --text-column one"),
        ("a.csv", "one,two\nx,a\n", ReadOptions(text_columns=("three",)), "has no such column, it has one, two"),
        ("a.jsonl", '{"text": ["x"]}\n', ReadOptions(), "is not text"),
    ],
)
def test_texts_that_cannot_be_read_are_refused(
    tmp_path: Path, name: str, content: str, reading: ReadOptions, sentence: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=sentence):
        read_collection(str(tmp_path / name), reading)
    with pytest.raises(DataError, match="--unit word is unknown"):
        ReadOptions(unit="word")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q.txt", "birds\nfish\n"),
        ("q.tsv", "query-id\ttext\n1\tbirds\n2\tfish\n"),
        ("q.jsonl", '{"_id": "1", "text": "birds"}\n{"_id": "2", "text": "fish"}\n'),
        ("q.csv", "id,text\n1,birds\n2,fish\n"),
    ],
)
def test_queries_come_from_any_of_the_usual_files(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert read_queries(str(tmp_path / name)) == {"1": "birds", "2": "fish"}


@pytest.mark.parametrize(
    "content",
    [
        "query-id\tcorpus-id\tscore\n1\td1\t1\n1\td2\t0\n2\td1\t2\n",
        "1\td1\n2\td1\t2\n",
    ],
    ids=["beir", "tabs"],
)
def test_judgements_come_from_any_of_the_usual_files(tmp_path: Path, content: str) -> None:
    (tmp_path / "queries.txt").write_text("birds\nfish\nunjudged\n")
    (tmp_path / "qrels").write_text(content)
    texts = Collection(("d2", "d1"), ("x", "y"))
    result = read_judged(str(tmp_path / "queries.txt"), str(tmp_path / "qrels"), texts)
    assert result.ids == ("1", "2") and result.grades == ({1: 1.0}, {1: 2.0})
    assert result.remarks == ("1 of 3 queries have no relevant document, and are left out",)


def test_ids_with_blanks_stand_between_tabs(tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("birds\n")
    (tmp_path / "qrels").write_text("1\ta b.txt\t1\n")
    assert read_judged(str(tmp_path / "queries.txt"), str(tmp_path / "qrels"), TWO).grades == ({1: 1.0},)


@pytest.mark.parametrize(
    ("queries", "qrels", "sentence"),
    [
        ("birds\n", "1\td9\t1\n", "line 1: there is no document 'd9' in the collection, whose ids are such as 'd1'"),
        ("birds\n", "7\td1\t1\n", "names no relevant document of any query"),
        ("birds\n", "1\td1\tmuch\n", "line 1 is not QUERY<TAB>DOCUMENT"),
        *(("birds\n", f"1\td1\t{grade}\n", "line 1 is not QUERY") for grade in ("nan", "inf", "-inf", "1e400", "")),
        ("birds\n", "1\n", "line 1 is not QUERY<TAB>DOCUMENT"),
        ("birds\n", "1 0 d1 1\n", "line 1 is not QUERY<TAB>DOCUMENT"),
        ("\n", "1\td1\t1\n", "holds no query"),
        ("a\tbirds\na\tfish\n", "a\td1\t1\n", "two queries have the id 'a'"),
    ],
)
def test_judgements_that_cannot_be_read_are_refused(tmp_path: Path, queries: str, qrels: str, sentence: str) -> None:
    (tmp_path / "queries.txt").write_text(queries)
    (tmp_path / "qrels").write_text(qrels)
    with pytest.raises(DataError, match=sentence):
        read_judged(str(tmp_path / "queries.txt"), str(tmp_path / "qrels"), TWO)
