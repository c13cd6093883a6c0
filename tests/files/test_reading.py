"""Small files that anybody may have written: read, or refused in one sentence that begins with the path."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import yaml

from headtohead.files.reading import DamagedFile, open_regular, read_json, read_object, read_text, read_yaml

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (BOMB, "holds more than 1000000 values, with its aliases written out"),
        ("a: &a [*a]", r"holds itself \(\*a\)"),
        ("[" * 5000 + "]" * 5000, "is nested deeper than 100 levels"),
        ("a: " + "9" * 5000, "holds a value that cannot be read"),
        ("!!python/object/apply:os.system [true]", "is no YAML: could not determine a constructor"),
        ("a: [", "is no YAML"),
        ("a: 2024-99-99", "holds a value that cannot be read"),
    ],
)
def test_yaml_that_cannot_be_is_refused_at_once(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(content)
    began = time.monotonic()
    with pytest.raises(DamagedFile, match=rf"^{path} {said}"):
        read_yaml(path)
    assert time.monotonic() - began < 5


def test_yaml_with_the_aliases_of_a_usual_file_is_read_as_it_is(tmp_path: Path) -> None:
    shared = ["headtohead", {"depth": 3}]
    content = {"one": shared, "two": shared, "merged": {"a": 1.5, "b": None, "c": "ü"}}
    text = yaml.safe_dump(content, allow_unicode=True)
    assert "*id001" in text
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8-sig")
    assert read_yaml(tmp_path / "a.yaml") == content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"{", "is not valid JSON: Expecting property name"),
        (b"[" * 100_000, "is nested deeper than 100 levels"),
        (b"[" * 200 + b"]" * 200, "is nested deeper than 100 levels"),
        (b"9" * 5000, "holds a value that cannot be read"),
        (b"\xff\xfe{}", r"is not UTF-8 text \(byte 0\)"),
        (b"[]", "is list, where an object is expected"),
    ],
)
def test_json_that_cannot_be_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=f"^{path} {said}.*: put it back$"):
        read_object(path, way_out="put it back")


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "folder", "loop"):
        with pytest.raises(DamagedFile, match=f"{name} (is no regular file|cannot be read)"):
            read_text(tmp_path / name)
    with pytest.raises(DamagedFile, match="pipe is no regular file"):
        open_regular(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    with path.open("wb") as file:
        file.truncate(2**21 + 1)
    with pytest.raises(DamagedFile, match="is larger than 2 MiB, and is not read"):
        read_text(path, most=2**21)
