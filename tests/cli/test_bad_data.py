"""Data that cannot be read or does not fit: one line that names the file or field and the way out, and exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead.cli import main

CSV = ["data=csv", "data.path=data.csv", "task=classification", "model=encoder_only"]
JSON = ["data=json", "data.path=data.jsonl"]
TAGS = ["task=tagging", "model=encoder_only", "data=conll", "data.path=data.conll"]
IMAGES = ["task=image_classification", "model=vision_transformer", "data=image_folder", "data.path=images"]
TEXT = ["data=text", "data.path=book.txt", "data.context_length=8"]
LABELLED = "text,label\n" + "".join(f"number {row},{('no', 'yes')[row % 2]}\n" for row in range(40))


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("A line of text.\n" * 200)
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str], *overrides: str) -> str:
    """Return what `h2h inspect` says, which reads data as `h2h train` does."""
    assert main(["inspect", *overrides]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and "HEADTOHEAD_DEBUG" not in shown
    return shown


@pytest.mark.parametrize(
    ("file", "content", "overrides", "message"),
    [
        ("other.csv", b"", CSV, ["data.path=data.csv does not exist", "correct the path"]),
        ("data.csv", LABELLED.encode(), [*CSV, "data.text_column=txt"], ["data.csv has no column 'txt'", "'label'"]),
        ("data.csv", b"text,label\n", CSV, ["data.csv has no samples for the train split", "give some"]),
        ("data.csv", LABELLED.replace("number 4,", ",").encode(), CSV, ["data.csv, line 6", "its text is empty"]),
        ("data.csv", LABELLED.replace(" 4,no", " 4,").encode(), CSV, ["data.csv, line 6: its label is empty"]),
        (
            "data.csv",
            LABELLED.replace(" 4,no", " 4,7").encode(),
            [*CSV, "data.class_names=[no,yes]"],
            ["data.csv, line 6 has label 7", "numbered from 0 to 1"],
        ),
        ("data.csv", b"text,label\n\xe9t\xe9,no\n", CSV, ["data.csv is not text in data.encoding=utf-8", "latin-1"]),
        ("data.csv", b"text,label\none\n", CSV, ["data.csv, line 2 has 1 fields", "data.delimiter"]),
        ("data.jsonl", b'{"text": "a", "label": 0.5}', [*JSON, *CSV[2:]], ["data.jsonl, line 1", "a whole number"]),
        (
            "data.jsonl",
            json.dumps({"tokens": ["a", "b"], "tags": ["O"]}).encode(),
            [*TAGS[:2], *JSON],
            ["line 1 has 2 words and 1 tags"],
        ),
        (
            "data.jsonl",
            json.dumps({"question": "q", "context": "c", "answer": "z"}).encode(),
            ["task=span_qa", "model=encoder_only", *JSON],
            ["data.jsonl, line 1: its answer 'z' is not in its context"],
        ),
        ("data.conll", b"word\n", TAGS, ["data.conll, line 1 has one field"]),
        ("images/a/1.png", b"no image", IMAGES, ["images/a/1.png is not a whole image"]),
        ("data.csv", LABELLED.encode(), ["data=csv", "data.path=data.csv"], ["reads data of kind", "labelled_text"]),
        ("x", b"", [*TEXT, "model.vocab_size=6"], ["model.vocab_size=6 is smaller than the vocabulary", "up to"]),
        (
            "x",
            b"",
            [*TEXT, "model/position=learned", "model.max_length=4"],
            ["model.max_length=4 is shorter than the rows of data=text", "or cut the rows: data.context_length=3"],
        ),
    ],
)
def test_bad_data_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], file: str, content: bytes, overrides: list[str], message: list[str]
) -> None:
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A bad row alone would leave too few for three splits, which is another matter.
    path.write_bytes(b"\n".join([content] * 20) if path.suffix == ".jsonl" else content)
    shown = refusal(capsys, *overrides)
    assert all(part in shown for part in message), shown


def test_unknown_label_in_validation_names_the_validation_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("data.csv").write_text(LABELLED)
    Path("held.csv").write_text(LABELLED.replace("0,no", "0,maybe"))
    shown = refusal(capsys, *CSV, "data.validation_path=held.csv")
    assert "held.csv, line 2 has label 'maybe', which the train split does not have (no, yes)" in shown


def test_unreadable_image_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (Path("images") / name).mkdir(parents=True)
        (Path("images") / name / "1.png").write_bytes(b"no image")
    assert "2 of 2 images cannot be read, images/a/1.png, images/b/1.png" in refusal(capsys, *IMAGES)


@pytest.mark.parametrize("damage", [b"", b"garbage" * 1000], ids=["empty", "garbage"])
def test_damaged_cache_names_its_folder(
    capsys: pytest.CaptureFixture[str], folder_of_its_own: Path, damage: bytes
) -> None:
    assert main(["inspect", *TEXT]) == 0
    capsys.readouterr()
    (stored,) = (folder_of_its_own / "cache").rglob("train.arrow")
    stored.write_bytes(damage)
    shown = refusal(capsys, *TEXT)
    assert f"the cache folder {stored.parent} is damaged" in shown and "delete it, and it is created again" in shown
