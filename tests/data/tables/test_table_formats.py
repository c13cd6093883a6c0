"""Formats of tables: what a file must hold, which choices there are, and what is said of bad ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from data.tables.written_tables import LABELLED, refusal, source_of, write
from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.sources.csv_files import CsvFiles
from headtohead.data.sources.json_files import JsonFiles
from headtohead.data.sources.table_files import TableFiles


def test_first_line_need_not_name_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "data.tsv"
    path.write_text("".join(f'he said "{row}\t{row % 2}\n' for row in range(40)))
    samples = source_of(path, column_names=["text", "label"]).samples()
    assert ('he said "0', "0") in [one for name in SPLIT_NAMES for one in samples[name]]


def test_delimiter_and_encoding_are_choices(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes("".join(["text;label\n", *(f'"né;e {row}";{row % 2}\n' for row in range(40))]).encode("latin-1"))
    samples = source_of(path, delimiter=";", encoding="latin-1").samples()
    assert ("né;e 0", "0") in [one for name in SPLIT_NAMES for one in samples[name]]


def test_lines_within_quotes_count_as_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b'\xef\xbb\xbftext,label\r\n"two\r\nlines",a\r\n\r\nc\r\n')
    message = refusal(lambda: source_of(path))
    assert message.startswith(f"{path}, line 5 has 1 fields, and the columns are 2 (text, label)")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.csv", b"", "is empty: it must begin with a line that names its columns"),
        ("data.csv", b'text,label\n"open,1\n', "line 2 is not a line of fields .* data.quoted=false"),
        ("data.csv", b"text,label\n\xff,1\n", "is not text in data.encoding=utf-8 .byte 11 is 0xff"),
        ("data.jsonl", b'{"text": "a", "label": 1}\n{"text": \n', "line 2 is not JSON"),
        ("data.jsonl", b'{"text": "a", "label": 1}\n{"text": "b"}\n', "line 2: its label is empty, and must be"),
        ("data.jsonl", b'{"text": "a", "label": 1}\n[1]\n', "entry 2 is not an object with named values, but '.1.'"),
        ("data.json", b"[1, 2]", "entry 1 is not an object with named values, but '1'"),
        ("data.json", b'[{"text": 1}, ', "line 1 is not JSON"),
        ("data.json", b"", "holds no objects"),
        ("data.json", b'{"a": \n1}', "must hold an object per line, a list of objects"),
        ("data.parquet", b"PAR1 and no more", "is not a whole Parquet file .* write it again"),
    ],
)
def test_file_that_is_not_what_its_name_says_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as refused:
        source_of(path).prepare()
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "way_out"),
    [
        ("data.csv", b"so dull,0\nso good,1\n", "data.column_names=[text,label]"),
        ("data.csv", b"text,text,label\na,b,c\n", "has two columns 'text': give each its own name"),
        ("data.csv", "text,label\na,b\n".encode("utf-16"), "data.encoding=utf-16."),
        ("data.jsonl", '{"text": "a"}\n'.encode("utf-16"), "is not text in utf-8 .*: save it in that encoding"),
    ],
)
def test_refused_file_names_the_remedy(tmp_path: Path, name: str, content: bytes, way_out: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as refused:
        source_of(path).prepare()
    assert re.search(way_out if ".*" in way_out else re.escape(way_out), str(refused.value))


@pytest.mark.parametrize(
    ("source", "ending", "other"), [(CsvFiles, "jsonl", "data=json"), (JsonFiles, "csv", "data=csv")]
)
def test_file_of_another_format_is_refused_with_its_reader(
    tmp_path: Path, source: type[TableFiles], ending: str, other: str
) -> None:
    path = write(tmp_path / f"data.{ending}", LABELLED)
    assert other in refusal(lambda: from_fields(source, path=str(path)))


def test_encoding_that_is_advised_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes("".join(["text,label\n", *(f"né {row},{row % 2}\n" for row in range(40))]).encode("utf-16"))
    advised = refusal(lambda: source_of(path)).rpartition("data.encoding=")[2].rstrip(".")
    samples = source_of(path, encoding=advised).samples()
    assert ("né 0", "0") in [one for name in SPLIT_NAMES for one in samples[name]]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"delimiter": "::"}, "data.delimiter='::' must be one character"),
        ({"class_names": ["a"]}, "give at least two names"),
        ({"class_names": ["a", "a"]}, "no two of them alike"),
        ({"validation_share": 0.7, "test_share": 0.3}, "together below 1"),
        ({"max_length": 3}, "data.max_length=3 must be at least 8"),
        ({"packing": "loose"}, "data.packing=loose is unknown"),
    ],
)
def test_senseless_choices_are_refused(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_fields(CsvFiles, path="data.csv", **chosen)
