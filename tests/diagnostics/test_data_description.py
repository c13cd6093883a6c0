"""A look at a file says what it holds, and the command that it prints composes and reads it."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headtohead.cli import main
from headtohead.config.compose.composition import compose_checked
from headtohead.config.origins.from_weights import build_data
from headtohead.data.sources.line_files import are_tagged
from headtohead.diagnostics.data_description import describe
from headtohead.errors import UsageError

ROWS = [(f"a film of number {number} that is rather {word}", word) for number in range(20) for word in ("good", "bad")]


def table(file: Path, header: str, separator: str) -> Path:
    lines = [header] if header else []
    file.write_text("\n".join([*lines, *(separator.join(row) for row in ROWS)]) + "\n")
    return file


def images(folder: Path) -> Path:
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(12):
            pixels = np.random.default_rng(number).integers(0, 255, (8, 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def pairs(folder: Path) -> Path:
    folder.mkdir()
    for ending in ("de", "en"):
        (folder / f"train.{ending}").write_text("\n".join(f"{ending} line {number}" for number in range(40)) + "\n")
    return folder


def tags(file: Path, between: str = " ", kinds: tuple[str, str] = ("B-person", "O")) -> Path:
    sentences = (f"Anna{number}{between}{kinds[0]}\nsleeps{between}{kinds[1]}" for number in range(30))
    file.write_text("\n\n".join(sentences) + "\n")
    return file


def text(file: Path) -> Path:
    file.write_text("\n\n".join(f"Paragraph {number} has some words of its own." for number in range(60)))
    return file


def lines(file: Path) -> Path:
    file.write_text(
        "".join(json.dumps({"body": row[0], "category": row[1], "id": n}) + "\n" for n, row in enumerate(ROWS))
    )
    return file


CASES = {
    "csv": (lambda below: table(below / "a.csv", "review,verdict", ","), "csv", "classification"),
    "headless": (lambda below: table(below / "a.tsv", "", "\t"), "csv", "classification"),
    "json": (lambda below: lines(below / "a.jsonl"), "json", "classification"),
    "images": (lambda below: images(below / "images"), "image_folder", "image_classification"),
    "pairs": (lambda below: pairs(below / "pairs"), "parallel_text", "seq2seq"),
    "tags": (lambda below: tags(below / "a.conll"), "conll", "tagging"),
    "tags in a text": (lambda below: tags(below / "tags.txt"), "conll", "tagging"),
    "tags between tabs": (lambda below: tags(below / "tags.tsv", "\t"), "conll", "tagging"),
    "tags without an ending": (lambda below: tags(below / "tags"), "conll", "tagging"),
    "parts of speech": (lambda below: tags(below / "words.txt", kinds=("NOUN", "VERB")), "conll", "tagging"),
    "text": (lambda below: text(below / "a.txt"), "text", "causal_lm"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_file_holds_is_said_and_read_by_the_command_that_is_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, choice, task = CASES[name]
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    described = describe(make(tmp_path))
    assert (described.choice, described.task) == (choice, task)
    shorter = [word for word in ("data.context_length=8",) if task == "causal_lm"]
    source = build_data(compose_checked("train", [*described.overrides, *shorter]))
    total = sum(len(source.split(split)) for split in ("train", "validation", "test"))  # type: ignore[arg-type]
    assert task == "causal_lm" or total == sum(described.num_rows.values())
    assert task not in ("classification", "image_classification") or described.chance == 0.5


def test_files_of_ten_columns_are_refused_with_the_command_that_writes_words_and_tags(tmp_path: Path) -> None:
    file = tmp_path / "a.conllu"
    file.write_text("# text = Dogs bark\n1\tDogs\tdog\tNOUN" + "\t_" * 6 + "\n2\tbark\tbark\tVERB" + "\t_" * 6 + "\n\n")
    with pytest.raises(UsageError, match=r"of ten columns .*cut -f2,4"):
        describe(file)


@pytest.mark.parametrize("text", ["good day\ngood night\n\nbye bye\n", "a b\n\nc d e\n", "one\n\ntwo\n", "x O\ny O\n"])
def test_a_text_in_short_lines_is_no_tagged_text(text: str) -> None:
    assert not are_tagged(text)


LABELS = {
    "blanks around them": ["a", " a", "b ", "b"],
    "numbers with a point": [0.0, 1.0, 1, 0],
    "truth": [True, False, True, False],
    "digits as text": ["1", 1, "0", 0],
    "negative": [-1, 1, 0, 1],
}


@pytest.mark.parametrize("name", LABELS)
def test_classes_are_those_that_a_run_learns(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "a.jsonl"
    rows = [{"text": f"film number {number} of many", "label": LABELS[name][number % 4]} for number in range(40)]
    file.write_text("\n".join(map(json.dumps, rows)))
    described = describe(file)
    assert set(described.classes) == set(build_data(compose_checked("train", described.overrides)).spec().class_names)
    (few,) = described.remarks
    assert sum(described.classes.values()) == 40 and few.startswith("of 40 rows 2 are for the test")


FAULTY = {
    "a list for a label": ({"label": ["a"]}, "must be a name or a whole number"),
    "a fraction for a label": ({"label": 0.5}, "must be a name or a whole number"),
    "half a sign": ({"text": "a \ud83d"}, "which is not text"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_rows_that_a_run_refuses_are_counted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    change, sentence = FAULTY[name]
    rows = [{"text": f"film number {number}", "label": "ab"[number % 2]} for number in range(40)]
    rows[7], rows[9] = rows[7] | change, rows[9] | change
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    described = describe(file)
    (remark,) = described.remarks
    assert sentence in remark and "2 of 40 rows cannot be read" in remark and "line 8" in remark
    with pytest.raises(ValueError, match=sentence):
        build_data(compose_checked("train", described.overrides)).spec()


def rows_of(labels: str, header: str) -> str:
    return "\n".join([header, *(f"film number {number},{labels[number % len(labels)]}" for number in range(40))]) + "\n"


def tagged_lines(tag: str, number: int = 30) -> str:
    return "\n\n".join(f"Anna{row} B-{tag}\nsleeps O" for row in range(number)) + "\n"


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize(
    ("train", "other", "suffix", "sentence"),
    [
        (rows_of("ab", "text,label"), "text,label\nfilm,a\nfilm,c\n", "csv", "has label 'c', which the train split"),
        (rows_of("ab", "text,label"), "text,class\nfilm,a\n", "csv", "has no column 'label'"),
        (tagged_lines("person"), tagged_lines("place", 2), "conll", "has tag 'B-place', which the train split"),
    ],
    ids=["another class", "another column", "another tag"],
)
def test_what_a_run_refuses_of_held_out_files_is_said_as_it_says_it(
    train: str, other: str, suffix: str, sentence: str, split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / f"train.{suffix}").write_text(train)
    (folder / f"{split}.{suffix}").write_text(other)
    described = describe(folder)
    (remark,) = described.remarks
    with pytest.raises(ValueError, match=sentence) as refused:
        build_data(compose_checked("train", described.overrides)).spec()
    assert str(refused.value) in remark and f"{split}.{suffix}" in remark


def test_classes_are_counted_over_all_files_of_the_split(tmp_path: Path) -> None:
    """Many sets are sorted by class, with a file or more for each."""
    for label in "abc":
        rows = "".join(f"film number {number},{label}\n" for number in range(10))
        (tmp_path / f"train-{label}.csv").write_text(f"text,label\n{rows}")
    (tmp_path / "test.csv").write_text("text,label\nfilm,a\n")
    described = describe(tmp_path)
    assert described.classes == {"a": 10, "b": 10, "c": 10} and described.num_rows == {"train": 30, "test": 1}


def test_one_class_is_none_to_learn(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text,label\n" + "".join(f"film number {number},good\n" for number in range(40)))
    described = describe(file)
    assert described.task == "causal_lm" and not described.classes
    assert described.remarks == ("label is good in every row, so that there is no class to learn",)


@pytest.mark.parametrize(
    ("header", "label"),
    [("text,sentiment", "sentiment"), ("text,y", "y"), ("text,star_rating", "star_rating"), ("text,year", None),
     ("review,sentiment", "sentiment"), ("review,year,label", "label"), ("text,country", None)],
)  # fmt: skip
def test_a_column_named_as_a_label_is_one_whatever_the_text_is_called(
    header: str, label: str | None, tmp_path: Path
) -> None:
    others = header.count(",")
    rows = [",".join([f"film number {number}", *["ab"[number % 2]] * others]) for number in range(40)]
    (tmp_path / "a.csv").write_text("\n".join([header, *rows]))
    named = [word for word in describe(tmp_path / "a.csv").overrides if word.startswith("data.label_column=")]
    assert named == ([] if label is None else [f"data.label_column={label}"])


@pytest.mark.parametrize("name", ["csv", "headless", "json"])
def test_a_packed_file_is_described_as_the_file_in_it(name: str, tmp_path: Path) -> None:
    plain = CASES[name][0](tmp_path)
    packed = plain.with_name(f"{plain.name}.gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = describe(plain), describe(packed)
    assert (first.columns, first.classes, first.num_rows) == (second.columns, second.classes, second.num_rows)
    assert [word.replace(str(packed), str(plain)) for word in second.overrides] == list(first.overrides)


DELIMITERS = {",": None, "\t": "'\\t'", ";": "';'", "|": "'|'"}


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("header", ["review,verdict", ""])
def test_the_delimiter_is_seen_in_the_lines(
    header: str, delimiter: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    plain = table(tmp_path / "a.csv", header.replace(",", delimiter), delimiter)
    file = tmp_path / f"b.{suffix}"
    file.write_bytes(gzip.compress(plain.read_bytes()) if suffix.endswith("gz") else plain.read_bytes())
    described = describe(file)
    assert described.task == "classification" and described.classes == {"good": 20, "bad": 20}
    named = [word.partition("=")[2] for word in described.overrides if word.startswith("data.delimiter=")]
    assert named == ([] if DELIMITERS[delimiter] is None else [DELIMITERS[delimiter]])
    assert len(build_data(compose_checked("train", described.overrides)).spec().class_names) == 2
    if delimiter != "," and header:
        with pytest.raises(ValueError, match=r"data\.delimiter=") as refused:
            build_data(compose_checked("train", ["data=csv", f"data.path={file}", "task=classification"])).spec()
        assert str(named[0]) in str(refused.value)


UNUSUAL = ["a b", "a,b", "a=b", "a(1)", "{a}", "größe", "it's", 'say "a"', "a;b", "${a}", "a%", "~a", "null", "true",
           "a\\", "@a", "+a", "#a", "*", "a|b", "[a]", "!a", "ä\\'", "&a", "a:b", "文"]  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_command_is_read_whatever_letters_files_and_columns_have(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name.replace('/', '')}.jsonl"
    rows = [{f"{name} text": f"film number {row} of many", f"{name}": "ab"[row % 2]} for row in range(40)]
    file.write_text("\n".join(map(json.dumps, rows)))
    described = describe(file)
    words = shlex.split(described.command)
    assert words[2:] == list(described.overrides)
    data = compose_checked("train", words[2:])["data"]
    assert (data["path"], data["text_column"], data["label_column"]) == (str(file), f"{name} text", name)


@pytest.mark.parametrize("name", ["a(1).csv", "josé.csv", "it's.csv", "a;b", "a,b.csv"])
def test_a_value_that_cannot_be_read_is_refused_with_what_can_be(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        compose_checked("train", ["data=csv", f"data.path={name}"])
    (suggested,) = shlex.split(re.findall(r'"data.*?[^\\]"', str(refused.value))[0])
    assert compose_checked("train", ["data=csv", suggested])["data"]["path"] == name


@pytest.mark.parametrize(
    ("columns", "task", "parts"),
    [
        ({"en": "the old film {}", "de": "der alte Film {}"}, "seq2seq", ("source_column=en", "target_column=de")),
        ({"question": "who is number {} here", "answer": "it is number {}"}, "seq2seq", ("source_column=question",)),
        ({"translation": {"en": "the old film {}", "de": "der alte Film {}"}}, "seq2seq",
         ("source_column=translation.en", "target_column=translation.de")),
        ({"text": "the old film {}", "score": "{}.5"}, "similarity", ("text_column=text", "score_column=score")),
        ({"body": "the old film {}", "price": "{}.5"}, "similarity", ("text_column=body", "score_column=price")),
        ({"text": "the old film {}", "author": "Anna{}"}, "causal_lm", ("text_column=text",)),
    ],
)  # fmt: skip
def test_two_columns_are_a_pair_a_score_or_a_text_alone(
    columns: dict[str, object], task: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    filled = json.dumps(columns)
    (tmp_path / "a.jsonl").write_text("\n".join(filled.replace("{}", str(row)) for row in range(80)))
    described = describe(tmp_path / "a.jsonl")
    assert described.task == task and {f"data.{part}" for part in parts} <= set(described.overrides)
    assert any("not read: author" in remark for remark in described.remarks) is ("author" in columns)


BINARY = {
    "a.zip": b"PK\x03\x04", "a.npy": b"\x93NUMPY", "a.xls": b"\xd0\xcf\x11\xe0", "a.feather": b"ARROW1",
    "a.bin": b"\x01\x00", "a.pdf": b"%PDF", "a.csv": b"PK\x03\x04", "a.txt": b"\x1f\x8b",
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_a_file_that_is_no_text_is_refused_as_what_it_is(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(BINARY[name] + b"\x00\xff\xfe\x80")
    with pytest.raises(UsageError, match="is not text, but") as refused:
        describe(tmp_path / name)
    assert "latin-1" not in str(refused.value)


def test_a_folder_is_what_most_of_its_files_are(tmp_path: Path) -> None:
    folder = images(tmp_path / "images")
    (folder / "labels.csv").write_text("a,b\n")
    (folder / "readme.txt").write_text("of cats and dogs")
    assert describe(folder).task == "image_classification"
    (tmp_path / "above").mkdir()
    images(tmp_path / "above" / "unpacked")
    (remark,) = describe(tmp_path / "above").remarks
    assert f"{tmp_path / 'above' / 'unpacked'} holds the folders cat, dog" in remark


def test_images_that_a_run_would_refuse_are_named(tmp_path: Path) -> None:
    folder = images(tmp_path)
    assert not describe(folder).remarks
    broken = sorted(folder.rglob("*.png"))[:2]
    for file in broken:
        file.write_bytes(b"no image")
    (remark,) = describe(folder).remarks
    assert remark.startswith("a run refuses this: 2 of ") and all(str(file) in remark for file in broken)


def test_very_long_texts_are_cut_by_the_command_that_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"{'long ' * 2000}{n},{'ab'[n % 2]}\n" for n in range(9)))
    described = describe(tmp_path / "a.csv")
    assert "data.max_length=512" in described.overrides and "10,001 letters" in described.remarks[0]


def test_only_what_says_how_a_file_is_read_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text;label\n" + "".join(f"café {n};{'ab'[n % 2]}\n" for n in range(40)), encoding="latin-1")
    assert main(["data", str(file)]) == 2 and "data.encoding=latin-1" in capsys.readouterr().err
    assert main(["data", str(file), "data.encoding=latin-1"]) == 0
    assert "data.encoding=latin-1" in capsys.readouterr().out
    assert main(["data", str(file), "data.quoted=perhaps"]) == 2
    assert "data.quoted=perhaps is refused: it must be true or false" in capsys.readouterr().err
    assert main(["data", str(file), "data.batch_size=4"]) == 2 and "data.column_names" in capsys.readouterr().err
    for name, option in (("a.jsonl", "data.quoted=true"), ("a.txt", "data.delimiter=x")):
        (tmp_path / name).write_text('{"text": "a", "label": "b"}\n')
        assert main(["data", str(tmp_path / name), option]) == 2
        assert f"{option.partition('=')[0]} cannot be chosen" in capsys.readouterr().err


def test_the_command_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", str(table(tmp_path / "a.tsv", "", "\t"))]) == 0
    shown = capsys.readouterr().out
    assert "2 classes: good 50.0%, bad 50.0%" in shown and "data.column_names=[text,label]" in shown
    assert main(["data", str(tmp_path / "none.csv")]) == 2 and "does not exist" in capsys.readouterr().err


def test_a_table_without_a_text_is_refused_with_the_fields_to_give(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(ValueError, match=r"data\.text_column="):
        describe(tmp_path / "numbers.csv")


def test_a_file_without_a_header_is_refused_with_the_likely_answer_first(tmp_path: Path) -> None:
    file = table(tmp_path / "a.tsv", "", "\t")
    with pytest.raises(ValueError) as refused:
        build_data(compose_checked("train", ["data=csv", f"data.path={file}", "task=classification"])).spec()
    assert str(refused.value).index("data.column_names=[text,label]") < str(refused.value).index("data.answer_column")


@pytest.mark.parametrize("header", ["text,label", "text", "a,b"])
def test_a_table_without_a_row_is_refused_in_a_sentence(header: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n")
    with pytest.raises(UsageError, match="no row"):
        describe(tmp_path / "a.csv")


@pytest.mark.parametrize("text", ["[]", "[{}]"])
def test_a_table_without_a_column_is_refused_in_a_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(UsageError, match=r"rows\.json"):
        describe(tmp_path / "rows.json")
