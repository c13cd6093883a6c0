"""Rows of a table that cannot be read: what is said names the file, the row and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.tables.written_tables import LABELLED, refusal, source_of, write
from from_fields import from_fields
from headtohead.data.sources.json_files import JsonFiles


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("label", "", "line 4: its label is empty, and must be a name or a whole number"),
        ("text", "", "line 4: its text is empty; correct or remove the row, or leave out all such rows"),
        ("label", "maybe", "line 4 has label 'maybe', which is not in data.class_names (no, yes)"),
        ("label", "2", "line 4 has label 2, and its 2 classes are numbered from 0 to 1"),
    ],
)
def test_bad_cell_is_named_with_file_and_line(tmp_path: Path, column: str, value: str, message: str) -> None:
    rows = [*LABELLED[:2], {**LABELLED[2], column: value}, *LABELLED[3:]]
    path = write(tmp_path / "data.csv", rows)
    sentence = refusal(lambda: source_of(path, class_names=["no", "yes"]))
    assert sentence.startswith(f"{path}, ") and message in sentence


@pytest.mark.parametrize(("provided", "part"), [("half of one: \ud83d", "text"), (["a", "\ud83d"], "words")])
def test_half_a_sign_of_json_is_named_with_its_line(tmp_path: Path, provided: Any, part: str) -> None:
    other: dict = {"text": {"label": "good"}, "words": {"tags": ["O", "O"]}}[part]
    lines = [json.dumps({part: own, **other}) for own in ("fine rows", "two words", provided)]
    (tmp_path / "train.jsonl").write_text("\n".join(lines), encoding="ascii")
    message = refusal(lambda: from_fields(JsonFiles, path=str(tmp_path / "train.jsonl")))
    assert f"train.jsonl, line 3: its {part} ha" in message and "(\\ud83d)" in message


def test_label_that_is_no_integer_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", [{"text": "a", "label": 0.5}])
    assert f"{path}, line 1: its label is 0.5, and must be a name or a whole number" in refusal(lambda: source_of(path))


WRITINGS: dict[str, tuple[Callable[[int], Any], tuple[str, ...]]] = {
    "integers": (int, ("0", "1", "2")),
    "numbers with a point": (float, ("0", "1", "2")),
    "digits": (str, ("0", "1", "2")),
    "digits with a point": (lambda label: f" {label}.00", ("0", "1", "2")),
    "words": (lambda label: ("caf\u00e9", "na\u00efve", "o")[label], ("caf\u00e9", "na\u00efve", "o")),
    "words with signs apart": (
        lambda label: ("cafe\u0301", "nai\u0308ve", "o")[label],
        ("caf\u00e9", "na\u00efve", "o"),
    ),
    "versions": (lambda label: f"1.{label}0", ("1", "1.10", "1.20")),
}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("writing", WRITINGS)
def test_a_class_is_the_same_however_a_file_writes_it(tmp_path: Path, writing: str, ending: str) -> None:
    written, names = WRITINGS[writing]
    path = write(tmp_path / f"data.{ending}", [{"text": f"row {n}", "label": written(n % 3)} for n in range(60)])
    assert source_of(path).spec().class_names == names


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("names", [("1", "0", "2"), ("1", "2", "3"), ("1", "a", "b"), ("x", "y", "z"), ("2", "0")])
def test_labels_that_differ_are_never_one_class(tmp_path: Path, names: Sequence[str], ending: str) -> None:
    """Numbers as labels are names where a name is a number, else indices: never some of each, in any format."""
    path = write(tmp_path / f"data.{ending}", [{"text": f"row {n}", "label": n % 3} for n in range(60)])
    source = source_of(path, class_names=list(names))
    if any(name.isdigit() for name in names) and not {"0", "1", "2"} <= set(names):
        assert f"is not in data.class_names ({', '.join(names)})" in refusal(lambda: source)
        return
    rows = source.split("train")
    batch = rows.batch(np.arange(len(rows)))
    expected = names if "x" in names else ("0", "1", "2")
    for sample in source.describe(batch):
        assert sample["label"] == expected[int(sample["text"].removeprefix("row ")) % 3]


def test_one_file_may_write_a_class_in_several_ways(tmp_path: Path) -> None:
    labels = ["0", "1", "0.0", "1.0"]
    path = write(tmp_path / "data.csv", [{"text": f"row {n}", "label": labels[n % 4]} for n in range(60)])
    assert source_of(path).spec().class_names == ("0", "1")


def test_classes_that_look_alike_are_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "data.csv", [{"text": f"row {n}", "label": ("Yes", "no", "yes")[n % 3]} for n in range(60)])
    assert source_of(path).spec().num_classes == 3
    assert "the classes 'Yes' and 'yes' differ in case or blanks alone" in caplog.text


@pytest.mark.parametrize("word", ["NA", "null", "NaN", "None"])
def test_word_for_a_missing_label_is_a_class_and_is_mentioned(
    tmp_path: Path, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "data.csv", [{"text": f"row {n}", "label": (word, "no", "yes")[n % 3]} for n in range(60)])
    assert source_of(path).spec().num_classes == 3
    assert caplog.text.count(f"among the classes are words for a missing label: {word};") == 1


def test_unknown_label_in_validation_is_named_with_its_own_file(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", LABELLED)
    write(tmp_path / "dev.csv", [*LABELLED[:5], {**LABELLED[5], "label": "meh"}])
    message = refusal(lambda: source_of(tmp_path))
    assert message.startswith(
        f"{tmp_path / 'dev.csv'}, line 7 has label 'meh', which the train split does not have (no, yes)"
    )
    assert "name all classes in data.class_names" in message


@pytest.mark.parametrize(("label", "is_grade"), [("0.37", True), ("meh", False), ("7", False), ("nan", False)])
def test_grades_that_are_taken_for_classes_are_refused_with_their_column(
    tmp_path: Path, label: str, is_grade: bool
) -> None:
    write(tmp_path / "train.csv", LABELLED)
    write(tmp_path / "dev.csv", [{**LABELLED[5], "label": label}])
    assert ("data.score_column and task=similarity" in refusal(lambda: source_of(tmp_path))) == is_grade


def test_tags_of_another_number_than_the_words_are_named_with_their_row(tmp_path: Path) -> None:
    rows = [{"tokens": ["a", "b"], "tags": ["O", "B-X"]}, {"tokens": ["a", "b", "c"], "tags": ["O"]}] * 20
    path = write(tmp_path / "data.parquet", rows)
    assert ", row 2 has 3 words and 1 tags: give each word one tag" in refusal(lambda: source_of(path))


def test_answer_that_is_not_in_its_context_is_named_with_its_row(tmp_path: Path) -> None:
    rows = [{"question": "q", "context": "a b c", "answer": "b"}] * 30 + [
        {"question": "q", "context": "a", "answer": "z"}
    ]
    message = refusal(lambda: source_of(write(tmp_path / "data.jsonl", rows)))
    assert message.startswith(f"{tmp_path / 'data.jsonl'}, line 31: its answer 'z' is not in its context")


@pytest.mark.parametrize("score", ["high", True, "inf"])
def test_score_that_is_no_number_is_named_with_its_row(tmp_path: Path, score: Any) -> None:
    path = write(tmp_path / "data.jsonl", [{"sentence1": "a", "sentence2": "b", "score": score}])
    assert f"{path}, line 1: its score is {score!r}, and must be a number" in refusal(lambda: source_of(path))
