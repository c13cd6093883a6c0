"""Local text, and what is said where there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.sources.text_files import TextFiles


def lines(number: int, start: int = 0) -> str:
    return "".join(f"line {line}: naïve – {line * 37}\n" for line in range(start, start + number))


def source_of(path: Path, **chosen: Any) -> TextFiles:
    return from_fields(TextFiles, path=str(path), context_length=8, **chosen)


def test_one_file_is_cut_in_three_at_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(lines(200), encoding="utf-8")
    splits = source_of(path, validation_share=0.1, test_share=0.2).samples()
    assert "".join(splits[name][0] for name in SPLIT_NAMES) == lines(200)
    assert all(len(splits[name]) == 1 and splits[name][0].endswith("\n") for name in SPLIT_NAMES)
    shares = [len(splits[name][0]) / len(lines(200)) for name in SPLIT_NAMES]
    assert np.allclose(shares, [0.7, 0.1, 0.2], atol=0.01)


def test_many_documents_are_dealt_out_whole_by_the_seed(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text(lines(200), encoding="utf-8")
    assigned = source_of(path, documents="line", validation_share=0.1).samples()
    assert [len(assigned[name]) for name in SPLIT_NAMES] == [170, 20, 10]
    assert sorted(text for name in SPLIT_NAMES for text in assigned[name]) == sorted(lines(200).splitlines())
    assert source_of(path, documents="line", seed=1).samples()["test"] != assigned["test"]


def test_paragraphs_end_at_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "plays.txt"
    path.write_bytes(b"".join(b"\r\n\r\nspeaker %d:\r\nhello\r\n\r\n" % number for number in range(30)))
    assigned = source_of(path, documents="paragraph").samples()
    expected = sorted(f"speaker {number}:\nhello" for number in range(30))
    assert sorted(text for name in SPLIT_NAMES for text in assigned[name]) == expected


def test_files_of_a_folder_are_documents_however_deep(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for number in range(25):
        (tmp_path / ("deep/er" if number % 2 else "deep") / f"{number}.txt").write_text(f"file {number} " * 9)
    (tmp_path / "notes.md").write_text("not requested")
    assigned = source_of(tmp_path).samples()
    assert sum(len(assigned[name]) for name in SPLIT_NAMES) == 25
    assert len(source_of(tmp_path, pattern="*.md").documents.files()) == 1


def test_few_files_are_each_cut(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(f"{name}\n" * 100)
    splits = source_of(tmp_path).samples()
    assert all([text[0] for text in splits[name]] == ["a", "b", "c"] for name in SPLIT_NAMES)


def test_line_ends_and_blanks_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "windows.txt"
    content = b"  one\r\ntwo\n\n\nthree\t \r\n" * 40
    path.write_bytes(content)
    splits = source_of(path).samples()
    assert "".join(splits[name][0] for name in SPLIT_NAMES).encode() == content


def test_changed_file_is_read_anew_and_unchanged_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "book.txt"
    path.write_text(lines(100), encoding="utf-8")
    before = source_of(path).spec()
    os.utime(path, (0, 0))
    with monkeypatch.context() as patch:
        patch.setattr(TextFiles, "make", None)
        assert source_of(path).spec() == before
    path.write_text(lines(100, start=1), encoding="utf-8")
    assert source_of(path).spec().data_hash != before.data_hash


def test_moved_file_is_the_same_data(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    for path in (first, second):
        path.write_text(lines(100), encoding="utf-8")
    assert source_of(first).spec() == source_of(second).spec()


def test_encoding_is_a_choice(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_bytes(("déjà vu\n" * 200).encode("latin-1"))
    assert source_of(path, encoding="latin-1").samples()["train"][0].startswith("déjà vu\n")


def refusal(make: Any) -> str:
    with pytest.raises(DataError) as refused:
        make().split("test")
    return str(refused.value)


def test_missing_path_is_refused() -> None:
    assert refusal(TextFiles).startswith("data.path is missing: give a text file, or a folder of them")


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    message = refusal(lambda: source_of(tmp_path / "nowhere.txt"))
    assert f"data.path={tmp_path / 'nowhere.txt'} does not exist" in message and "correct the path" in message


def test_folder_without_text_is_named_with_its_pattern(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(b"\x89PNG")
    message = refusal(lambda: source_of(tmp_path))
    assert message == (f"data.path={tmp_path} is a folder without files of data.pattern=**/*.txt: correct one of them.")


@pytest.mark.parametrize("content", ["", " \n\n\t\n"])
@pytest.mark.parametrize("documents", ["file", "line", "paragraph"])
def test_empty_file_is_refused(tmp_path: Path, content: str, documents: str) -> None:
    path = tmp_path / "empty.txt"
    path.write_text(content)
    assert refusal(lambda: source_of(path, documents=documents)) == (
        f"data.path={path} holds no text: all of it is empty, or only blanks."
    )


def test_text_too_short_for_three_splits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "word.txt"
    path.write_text("hello")
    message = refusal(lambda: source_of(path))
    assert f"data.path={path} leaves the" in message and "split empty, having 5 characters in 1 documents" in message


def test_text_too_short_for_one_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text(lines(40), encoding="utf-8")
    message = refusal(lambda: from_fields(TextFiles, path=str(path), context_length=100))
    assert "test split of data=text has" in message
    assert (
        "give more text or data.validation_share=0.17 data.test_share=0.17 or data.context_length=45 at most" in message
    )


def test_bytes_that_are_no_text_are_named_with_their_position(tmp_path: Path) -> None:
    path = tmp_path / "binary.txt"
    path.write_bytes(b"fine so far \xff\xfe")
    message = refusal(lambda: source_of(path))
    assert (
        f"{path} is not text in data.encoding=utf-8 (byte 12 is 0xff)" in message and "data.encoding=latin-1" in message
    )


def test_unknown_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(lines(100), encoding="utf-8")
    assert refusal(lambda: source_of(path, encoding="klingon")).startswith("data.encoding=klingon is unknown")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads every file")
def test_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_text(lines(100), encoding="utf-8")
    path.chmod(0)
    assert refusal(lambda: source_of(path)) == f"{path} cannot be read: Permission denied."


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"documents": "page"}, "data.documents=page is unknown: choose one of file, paragraph, line"),
        ({"validation_share": 0.0}, "data.validation_share=0.0 and data.test_share=0.05 must be above 0"),
        ({"validation_share": 0.6, "test_share": 0.4}, "together below 1"),
    ],
)
def test_senseless_choices_are_refused(tmp_path: Path, chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        source_of(tmp_path, **chosen)
