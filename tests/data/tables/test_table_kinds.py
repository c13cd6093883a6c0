"""Tables of the user's own: the same samples from CSV, JSON and Parquet, of the kind that their columns say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.tables.written_tables import LABELLED, Row, refusal, source_of, write
from headtohead.config.build import build_parts
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.data.data_source import SPLIT_NAMES
from headtohead.data.row_formats.questions import Question
from headtohead.data.sources.table_files import TableFormat

FORMATS = ("csv", "tsv", "json", "jsonl", "parquet")


every_format = pytest.mark.parametrize("ending", FORMATS)


KINDS: dict[str, tuple[Callable[[int], Row], dict[str, Any], Callable[[int], Any]]] = {
    "labelled_text": (
        lambda row: {"id": row, "review": f"it is {row}", "stars": row % 3},
        {"text_column": "review", "label_column": "stars"},
        lambda row: (f"it is {row}", str(row % 3)),
    ),
    "labelled_text of pairs": (
        lambda row: {"a": f"it is {row}", "b": f"it was {row}", "same": ("no", "yes")[row % 2]},
        {"text_column": "a", "second_text_column": "b", "label_column": "same"},
        lambda row: (f"it is {row}", f"it was {row}", ("no", "yes")[row % 2]),
    ),
    "scored_text": (
        lambda row: {"a": f"it is {row}", "b": f"it was {row}", "alike": row / 8},
        {"text_column": "a", "second_text_column": "b", "score_column": "alike"},
        lambda row: (f"it is {row}", f"it was {row}", row / 8),
    ),
    "tagged_text": (
        lambda row: {"words": ["in", f"Town{row}"], "entities": ["O", "B-LOC"]},
        {"text_column": "words", "tags_column": "entities"},
        lambda row: (("in", f"Town{row}"), ("O", "B-LOC")),
    ),
    "questions": (
        lambda row: {"q": "what?", "c": f"{row} is {row}", "a": str(row), "s": len(str(row)) + 4},
        {"question_column": "q", "context_column": "c", "answer_column": "a", "answer_start_column": "s"},
        lambda row: Question("what?", f"{row} is {row}", str(row), len(str(row)) + 4),
    ),
    "pairs_of_text": (
        lambda row: {"de": f"Zeile {row}", "en": f"line {row}"},
        {"source_column": "de", "target_column": "en"},
        lambda row: (f"Zeile {row}", f"line {row}"),
    ),
    "language": (
        lambda row: {"title": "x", "body": f"a document of number {row}"},
        {"text_column": "body", "context_length": 8},
        lambda row: f"a document of number {row}",
    ),
}


@every_format
@pytest.mark.parametrize("kind", KINDS)
def test_kind_and_samples_follow_from_the_columns_in_any_format(tmp_path: Path, kind: str, ending: str) -> None:
    row, columns, sample = KINDS[kind]
    source = source_of(write(tmp_path / f"data.{ending}", [row(number) for number in range(60)]), **columns)
    samples = source.samples()
    together = sorted((one for name in SPLIT_NAMES for one in samples[name]), key=str)
    assert together == sorted((sample(number) for number in range(60)), key=str)
    assert source.form.kind == kind.split()[0]
    assert [len(samples[name]) for name in SPLIT_NAMES] == [54, 3, 3]


READ = {
    "labelled_text": {"class_names", "max_length"},
    "labelled_text of pairs": {"class_names", "max_length"},
    "scored_text": {"max_length"},
    "tagged_text": {"class_names", "max_length"},
    "questions": {"stride", "max_length"},
    "pairs_of_text": {"max_length"},
    "language": {"context_length", "packing"},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "context_length": {"context_length": 9},
    "packing": {"packing": "stream"},
    "class_names": {"class_names": ["a", "b"]},
    "stride": {"stride": 3, "max_length": 40},
    "max_length": {"max_length": 40},
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_option_that_rows_of_a_kind_do_not_read_is_said_to_be_ignored(
    tmp_path: Path, kind: str, option: str
) -> None:
    assert set(OPTIONS) == {field.name for field in fields(TableFormat)}
    row, columns, _ = KINDS[kind]
    file = write(tmp_path / "data.csv", [row(number) for number in range(60)])
    columns = {name: value for name, value in columns.items() if name.endswith("_column")}
    options = OPTIONS[option]
    ignored = {field: value for field, value in options.items() if field not in READ[kind]}
    assert source_of(file, **columns, **options).ignored_fields() == ignored
    assert not source_of(file, **columns).ignored_fields()


def test_training_refuses_what_its_rows_ignore(tmp_path: Path) -> None:
    row, columns, _ = KINDS["labelled_text"]
    file = write(tmp_path / "data.csv", [row(number) for number in range(60)])
    words = ["data=csv", f"data.path={file}", *(f"data.{name}={column}" for name, column in columns.items())]
    config = compose_checked("train", [*words, "task=classification", "model=encoder_only", "data.packing=stream"])
    with pytest.raises(
        ConfigurationError, match=r"data\.packing=stream has no effect on data=csv, whose rows are label"
    ):
        build_parts(config)


def test_training_refuses_a_length_that_a_corpus_ignores(tmp_path: Path) -> None:
    row, columns, _ = KINDS["language"]
    file = write(tmp_path / "data.csv", [row(number) for number in range(60)])
    words = ["data=csv", f"data.path={file}", *(f"data.{name}={value}" for name, value in columns.items())]
    with pytest.raises(ConfigurationError, match=r"data\.max_length=40 has no effect on data=csv, whose rows are lang"):
        build_parts(compose_checked("train", [*words, "data.max_length=40"]))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_sorted_by_length_or_that_is_said_to_be_ignored(tmp_path: Path, kind: str) -> None:
    row, columns, _ = KINDS[kind]
    file = write(tmp_path / "data.csv", [row(number) for number in range(60)])
    sorted_, source = source_of(file, **columns), source_of(file, **columns, bucket_by_length=False)
    has_effect = (sorted_.split("train").lengths() is None) != (source.split("train").lengths() is None)
    ignored = set(source.ignored_fields()) & {"bucket_by_length"}
    assert ignored == (set() if has_effect else {"bucket_by_length"})


@pytest.mark.parametrize("kind", KINDS)
def test_spec_and_rows_are_the_same_from_any_format(tmp_path: Path, kind: str) -> None:
    row, columns, _ = KINDS[kind]
    described = []
    for ending in ("csv", "parquet"):
        source = source_of(write(tmp_path / f"data.{ending}", [row(number) for number in range(60)]), **columns)
        assert source.spec().kind == kind.split()[0]
        described.append((source.spec(), source.describe(source.split("test").batch(np.arange(2)))))
    assert described[0] == described[1]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"idx": 1, "sentence": "a", "label": 1}, "labelled_text"),
        ({"premise": "a", "hypothesis": "b", "label": 1}, "labelled_text"),
        ({"tokens": ["a"], "ner_tags": ["O"]}, "tagged_text"),
        ({"id": "1", "title": "t", "context": "c", "question": "q", "answers": {"text": ["c"]}}, "questions"),
        ({"source": "a", "target": "b"}, "pairs_of_text"),
        ({"sentence1": "a", "sentence2": "b", "score": 0.5}, "scored_text"),
        ({"sentence1": "a", "sentence2": "b", "similarity_score": 3}, "scored_text"),
        ({"text": "a", "url": "b"}, "language"),
    ],
)
def test_usual_names_of_columns_need_not_be_given(tmp_path: Path, row: Row, kind: str) -> None:
    assert source_of(write(tmp_path / "data.jsonl", [row])).form.kind == kind


def test_columns_that_leave_a_doubt_are_to_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", [{"review": "a", "stars": 1}])
    message = refusal(lambda: source_of(path))
    assert f"{path} has the columns 'review', 'stars', which do not say what they are" in message
    assert f": h2h data {path} guesses it, and shows the command; or give" in message
    assert "data.label_column data.text_column [data.second_text_column] for labelled_text" in message


@every_format
def test_missing_column_is_named_beside_those_there_are(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"data.{ending}", LABELLED)
    message = refusal(lambda: source_of(path, text_column="text", label_column="lable"))
    assert f"{path} has no column 'lable', it has 'text', 'label', 'other': correct data.label_column" in message


def test_columns_that_make_no_kind_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", LABELLED)
    assert "data.label_column do not make a kind of data together" in refusal(
        lambda: source_of(path, label_column="label")
    )
