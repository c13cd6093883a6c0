"""Questions in tables: answers nested as in SQuAD, in its file of articles, and none at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data.tables.written_tables import refusal, source_of, write
from headtohead.data.data_source import SPLIT_NAMES
from headtohead.data.row_formats.questions import Question

SQUAD = {"text": ["b", "c"], "answer_start": [2, 4]}


@pytest.mark.parametrize(
    ("answers", "others"),
    [
        (SQUAD, ("c",)),
        ([{"text": "b", "answer_start": 2}, {"text": "a b", "answer_start": 0}], ("a b",)),
        (["b", "b c"], ("b c",)),
        ("b", ()),
    ],
)
def test_nested_answers_are_read_the_first_is_learned_and_all_count(
    tmp_path: Path, answers: Any, others: tuple[str, ...]
) -> None:
    path = write(tmp_path / "data.jsonl", [{"question": "q", "context": "a b c", "answers": answers}] * 30)
    (options,) = set(source_of(path).samples()["train"])
    assert options.answer == "b" and options.start in (2, None) and options.answers == ("b", *others)


def test_nested_answers_are_read_from_parquet_too(tmp_path: Path) -> None:
    path = write(tmp_path / "data.parquet", [{"question": "q", "context": "a b c", "answers": SQUAD}] * 30)
    assert set(source_of(path).samples()["train"]) == {Question("q", "a b c", "b", 2, ("c",))}


def test_file_of_articles_is_read_as_its_questions(tmp_path: Path) -> None:
    questions = [
        {"question": f"q{number}", "id": "x", "answers": [{"text": "b", "answer_start": 2}]} for number in range(30)
    ]
    articles = {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "a b c", "qas": questions}]}]}
    for indent in (None, 1):
        path = tmp_path / "squad.json"
        path.write_text(json.dumps(articles, indent=indent))
        assert Question("q7", "a b c", "b", 2, id="x") in [
            one for name in SPLIT_NAMES for one in source_of(path).samples()[name]
        ]


def articles_in(path: Path, *, titled: bool = True) -> Path:
    """Write ten articles of three paragraphs with two questions each, whose ids name the article."""
    articles = []
    for article in range(10):
        paragraphs: list[dict[str, Any]] = [
            {
                "context": f"a b c {article} {paragraph}",
                "qas": [
                    {"question": f"q{number}", "id": f"{article}", "answers": [{"text": "b", "answer_start": 2}]}
                    for number in range(2)
                ],
            }
            for paragraph in range(3)
        ]
        articles.append({**({"title": f"Article {article}"} if titled else {}), "paragraphs": paragraphs})
    path.write_text(json.dumps({"version": "1.1", "data": articles}))
    return path


def test_questions_of_an_article_stand_in_the_same_split_where_they_share_its_title(tmp_path: Path) -> None:
    path, shares = articles_in(tmp_path / "squad.json"), {"validation_share": 0.2, "test_share": 0.3}
    for seed in range(3):
        samples = source_of(path, share_by="title", seed=seed, **shares).samples()
        assert [len(samples[name]) for name in SPLIT_NAMES] == [30, 12, 18]
        articles = [{options.id for options in samples[name]} for name in SPLIT_NAMES]
        assert sum(map(len, articles)) == len(set.union(*articles)) == 10
    apart = source_of(path, **shares).samples()
    assert sum(len({options.id for options in apart[name]}) for name in SPLIT_NAMES) > 10, (
        "paragraphs fall on all sides"
    )


def test_titles_change_nothing_but_by_what_rows_can_be_shared_out(tmp_path: Path) -> None:
    with_titles = source_of(articles_in(tmp_path / "titled.json"))
    without = source_of(articles_in(tmp_path / "plain.json", titled=False))
    assert with_titles.samples() == without.samples()
    message = refusal(lambda: source_of(tmp_path / "plain.json", share_by="title"))
    assert "data.share_by=title is not a column of" in message


@pytest.mark.parametrize("answers", [{"text": [], "answer_start": []}, []])
def test_question_with_an_empty_list_of_answers_has_none_in_its_context(tmp_path: Path, answers: Any) -> None:
    path = write(tmp_path / "data.jsonl", [{"question": "q", "context": "a b c", "answers": answers}] * 30)
    (options,) = set(source_of(path).samples()["train"])
    assert options.answer is None and options.answers == () and source_of(path).spec().has_unanswerable


@pytest.mark.parametrize("answers", [None, {"text": None, "answer_start": None}])
def test_question_whose_answer_is_missing_is_refused(tmp_path: Path, answers: Any) -> None:
    path = write(tmp_path / "data.jsonl", [{"question": "q", "context": "a b c", "answers": answers}])
    assert f"{path}, line 1: its answer " in refusal(lambda: source_of(path))
