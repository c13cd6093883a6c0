"""Files as people have them: what is guessed is said, and the command that is shown runs, or its refusal is shown."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

from data.tables.written_tables import write
from headtohead.api.own_data import describe_data
from headtohead.config.compose.composition import compose_checked
from headtohead.config.origins.from_weights import build_data
from headtohead.data.data_source import DataError
from headtohead.errors import UsageError

WORDS = ["the", "film", "was", "slow", "and", "the", "room", "clean", "but", "nobody", "laughed", "at", "all"]


def text(number: int) -> str:
    return f"{WORDS[number % 12]} {' '.join(WORDS[number % 5 :])} {number}"


FILES: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "two texts": (
        {"first": text, "second": lambda n: text(n + 40)},
        {"source": "first", "target": "second"},
        "first is read and second is written, a guess by their order",
    ),
    "several names in a row": (
        {"text": text, "labels": lambda n: ("a|b", "c", "b|c|d", "d")[n % 4] + str(n % 29)},
        {"text": "text"},
        "labels seems to hold several names in a row, as in 'a|b0'",
    ),
    "lists of names": ({"text": text, "labels": lambda n: ["a", "b"][: 1 + n % 2]}, {"text": "text"}, "labels holds"),
    "decimal commas": ({"text": text, "score": lambda n: f"{n},5"}, {"text": "text"}, "numbers with a comma"),
    "words with tags": (
        {"words": lambda n: ["in", f"Town{n}"], "ner": lambda n: ["O", f"B-{n % 2}"], "vector": lambda n: [0.5, n, n]},
        {"text": "words", "tags": "ner"},
        "",
    ),
    "many classes": (
        {"question": text, "intent": lambda n: f"to {n % 90}"},
        {"text": "question", "label": "intent"},
        "",
    ),
    "a column that is mostly empty": (
        {"text": text, "note": lambda n: ("x", "y")[n % 2] if n < 40 else None},
        {"text": "text"},
        "not read: note",
    ),
    "a key that rows leave out": ({"text": text, "label": lambda n: "ab"[n % 2] if n % 9 else None},
                                  {"text": "text", "label": "label"}, "34 of 300 rows lack a value"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_what_is_guessed_is_said_and_the_command_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    columns, parts, remark = FILES[name]
    rows = [{column: made(number) for column, made in columns.items()} for number in range(300)]
    rows = [{column: value for column, value in row.items() if value is not None} for row in rows]
    described = describe_data(write(tmp_path / "data.jsonl", rows))
    named = {f"data.{part}_column={column}" for part, column in parts.items()}
    assert named == {word for word in described.overrides if "_column=" in word}
    assert remark in " ".join(described.remarks) and bool(described.remarks) == bool(remark)
    assert build_data(compose_checked("train", described.overrides)).spec().kind == described.kind


@pytest.mark.parametrize("rows", [1, 3, 9, 30, 100, 1000])
def test_a_corpus_of_any_size_gets_a_context_that_its_drawn_splits_fill(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal that nothing can help is said with the command."""
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    table = write(tmp_path / "data.jsonl", [{"text": text(number)} for number in range(rows)])
    book = tmp_path / "book.txt"
    book.write_text("\n".join(map(text, range(rows))))
    for file in (table, book):
        described = describe_data(file)
        try:
            build_data(compose_checked("train", described.overrides)).spec()
        except DataError as error:
            assert rows < 30 and (file == book or str(error) in " ".join(described.remarks))
        chosen = [word for word in described.overrides if word.startswith("data.context_length=")]
        assert bool(chosen) == (rows < 1000)


@pytest.mark.parametrize(
    ("sign", "encoding"), [("“", "cp1252"), ("€", "cp1252"), ("é", "latin-1"), ("\x81ü", "latin-1")]
)
def test_a_refusal_of_an_encoding_names_one_that_reads_the_signs_that_it_holds(
    sign: str, encoding: str, tmp_path: Path
) -> None:
    file = tmp_path / "data.csv"
    file.write_bytes(("text,label\n" + "".join(f"{sign} {n},{n % 2}\n" for n in range(40))).encode(encoding))
    with pytest.raises(DataError, match=f"give its encoding, for instance data.encoding={encoding}"):
        describe_data(file)
    assert sign in describe_data(file, encoding=encoding).columns[0].example


def test_a_table_without_a_text_and_texts_that_are_tables_or_classes_are_told(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("a,b\n" + "".join(f"{n},{n * 2}\n" for n in range(40)))
    with pytest.raises(UsageError, match=r"a \(number\), b \(number\), and none of them is a text"):
        describe_data(tmp_path / "numbers.csv")
    (tmp_path / "chat.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}]}))
    with pytest.raises(UsageError, match=r"messages holds conversations: .*turn\['content'\] for turn in row"):
        describe_data(tmp_path / "chat.jsonl")
    rows = [{"tokens": text(n).split(), "label": ("good", "bad")[n % 2]} for n in range(40)]
    (tmp_path / "words.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UsageError, match="tokens holds lists of words: write each as one text"):
        describe_data(tmp_path / "words.jsonl")
    (tmp_path / "tabs.txt").write_text("".join(f"{text(n)}\tgood\n" for n in range(40)))
    assert any("2 fields between tabs" in remark for remark in describe_data(tmp_path / "tabs.txt").remarks)
    for name in ("neg", "pos"):
        folder = tmp_path / "reviews" / "train" / name
        folder.mkdir(parents=True)
        (folder / "1.txt").write_text(" ".join(map(text, range(40))))
    (remark,) = (one for one in describe_data(tmp_path / "reviews").remarks if "folders" in one)
    assert remark.startswith("the folders neg, pos are read as one text: where they are classes")


@pytest.mark.slow
def test_the_command_for_pictures_in_a_table_reads_them(tmp_path: Path) -> None:
    """Their classes are whole numbers without names, as frames have them."""
    pictures = []
    for number in range(40):
        Image.fromarray(np.full((12, 12), 100 * (number % 2) + number, np.uint8)).save(made := io.BytesIO(), "PNG")
        pictures.append({"bytes": made.getvalue(), "path": None})
    parquet.write_table(pyarrow.table({"image": pictures, "label": [n % 2 for n in range(40)]}), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match=r"image of .* holds pictures: `h2h train data=hub_images") as refused:
        describe_data(tmp_path / "a.parquet")
    words = shlex.split(str(refused.value).partition("`h2h train ")[2].partition("`")[0])
    source = build_data(compose_checked("train", words))
    assert source.spec().class_names == ("0", "1")


@pytest.mark.parametrize("num_rows", [12, 40, 400])
def test_a_test_of_few_rows_is_remarked_on_with_shares_that_give_it_more(num_rows: int, tmp_path: Path) -> None:
    file = tmp_path / "few.csv"
    file.write_text("text,label\n" + "".join(f"{text(n)},{'ab'[n % 2]}\n" for n in range(num_rows)))
    remarks = [remark for remark in describe_data(file).remarks if "of the accuracy" in remark]
    assert bool(remarks) == (num_rows < 190)
    words = remarks[0].partition(": ")[2].removesuffix(" gives it more").split() if remarks else []
    source = build_data(compose_checked("train", [*describe_data(file).overrides, *words]))
    assert len(source.split("test")) == (num_rows // 4 if remarks else num_rows // 20)


@pytest.mark.parametrize("held", [["validation"], ["test"], ["validation", "test"]])
def test_no_share_is_advised_of_a_split_with_rows_of_its_own(held: list[str], tmp_path: Path) -> None:
    """Nothing would be drawn by it."""
    for number, name in enumerate(["train", *held]):
        rows = range(100 * number, 100 * number + 40)
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "".join(f"{text(n)},{'ab'[n % 2]}\n" for n in rows))
    remarks = " ".join(describe_data(tmp_path).remarks)
    assert ("data.test_share=0.25" in remarks) == ("test" not in held)
    assert "validation_share" not in remarks
