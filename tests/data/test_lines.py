"""Files that are read line by line have the same lines everywhere: those from Windows, with a byte-order mark, and with
signs at which `str.splitlines` cuts and no editor does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from from_fields import from_fields
from headtohead.cli.generate import _lines as prompts_in
from headtohead.data.data_source import SPLIT_NAMES
from headtohead.data.sources.line_files import ParallelText
from headtohead.data.sources.text_files import TextFiles
from headtohead.files.safe_read import lines_of
from headtohead.finished_runs.embedding.collection import ReadOptions, read_collection
from headtohead.finished_runs.embedding.rankings import read_queries

SIGNS = ("\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
LINES = [f"line{sign}{number} naïve" for number, sign in enumerate((*SIGNS, " ", "\t") * 3)]


def _parallel(file: Path, side: int) -> list[str]:
    partner = file.with_suffix(".en")
    partner.write_bytes("".join(f"{line}\n" for line in LINES).encode())
    own = file.rename(file.with_suffix(".de"))
    ends = ("de", "en") if side == 0 else ("en", "de")
    source = from_fields(ParallelText, path=str(own.with_suffix(f".{ends[0]}")), source=ends[0], target=ends[1])
    return [pair[side] for pair, _ in source.read(own.with_suffix(f".{ends[0]}"))]


def _documents(file: Path, unit: str) -> list[str]:
    samples = from_fields(TextFiles, path=str(file), context_length=8, documents=unit).samples()
    return sorted(text for name in SPLIT_NAMES for text in samples[name])


READERS: dict[str, Callable[[Path], Sequence[str]]] = {
    "sources": lambda file: _parallel(file, 0),
    "targets": lambda file: _parallel(file, 1),
    "documents": lambda file: _documents(file, "line"),
    "collection": lambda file: read_collection(str(file), ReadOptions(unit="line")).texts,
    "prompts": lambda file: prompts_in(str(file)),
}


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("reader", READERS)
def test_lines_are_those_of_an_editor(reader: str, end: str, mark: str, tmp_path: Path) -> None:
    file = tmp_path / "train.txt"
    file.write_bytes((mark + "".join(f"{line}{end}" for line in LINES)).encode())
    read = READERS[reader](file)
    assert sorted(read) == sorted(LINES)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_queries_have_the_ids_that_are_typed(end: str, tmp_path: Path) -> None:
    file = tmp_path / "queries.tsv"
    texts = [line.replace("\t", " ") for line in LINES]
    file.write_bytes("".join(f"{number}\t{text}{end}" for number, text in enumerate(texts, 1)).encode())
    assert read_queries(str(file)) == {str(number): text for number, text in enumerate(texts, 1)}


def test_a_byte_order_mark_is_no_sign_of_a_text(tmp_path: Path) -> None:
    file = tmp_path / "book.txt"
    file.write_bytes("\ufeffa line of a book\n".encode() + b"another line\n" * 50)
    assert not any("\ufeff" in text for text in _documents(file, "file"))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("a\r\rb\r", ["a", "", "b"]),
        ("a\rb\nc", ["a\rb", "c"]),
    ],
)
def test_lines_of_odd_ends(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines
