"""Small files that anybody may have written: read, or refused in one sentence that begins with the path."""

from __future__ import annotations

import os
import pickle
import re
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

import headtohead
from headtohead.files import safe_read
from headtohead.files.safe_read import (
    DamagedFile,
    open_archive,
    open_regular,
    read_json,
    read_object,
    read_text,
    read_yaml,
)

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (BOMB, "holds more than 1000000 values, with its aliases written out"),
        ("a: &a [*a]", r"holds itself \(\*a\)"),
        ("[" * 5000 + "]" * 5000, "is nested deeper than 100 levels"),
        ("a: " + "9" * 5000, "holds a value that cannot be read"),
        ("!!python/object/apply:os.system [true]", "is not YAML: could not determine a constructor"),
        ("a: [", "is not YAML"),
        ("a: 2024-99-99", "holds a value that cannot be read"),
        ("a: 1\nb: [{c: 1},\n {c: 1, c: 2}]", "has c twice, the second in line 3: remove one, or give it another name"),
        ("{1: a, 1.0: b}", r"has 1 and 1\.0, the same key, twice"),
        ("{1: a, true: b}", "has 1 and true, the same key, twice"),
    ],
)
def test_yaml_that_cannot_be_is_refused_at_once(content: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(content)
    began = time.process_time()
    with pytest.raises(DamagedFile, match=rf"^{path} {expected}"):
        read_yaml(path)
    assert time.process_time() - began < 5


def test_yaml_with_the_aliases_of_a_usual_file_is_read_as_it_is(tmp_path: Path) -> None:
    shared = ["headtohead", {"depth": 3}]
    content = {"one": shared, "two": shared, "merged": {"a": 1.5, "b": None, "c": "ü"}}
    text = yaml.safe_dump(content, allow_unicode=True)
    assert "*id001" in text
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8-sig")
    assert read_yaml(tmp_path / "a.yaml") == content


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b"{", "is not valid JSON: Expecting property name"),
        (b"[" * 100_000, "is nested deeper than 100 levels"),
        (b"[" * 200 + b"]" * 200, "is nested deeper than 100 levels"),
        (b"9" * 5000, "holds a value that cannot be read"),
        (b"\xff\xfe{}", r"is not UTF-8 text \(byte 0\)"),
        (b"[]", "is list, where an object is expected"),
        (rb'{"name": ["a \ud800"]}', r"holds half a character \(\\ud800\)"),
        (rb'{"a \uDFFF": 1}', r"holds half a character \(\\udfff\)"),
    ],
)
def test_json_that_cannot_be_is_refused(content: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=f"^{path} {expected}.*: put it back$"):
        read_object(path, way_out="put it back")


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "folder", "loop"):
        with pytest.raises(DamagedFile, match=f"{name} (is not a regular file|cannot be read)"):
            read_text(tmp_path / name)
    with pytest.raises(DamagedFile, match="pipe is not a regular file"):
        open_regular(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    with path.open("wb") as file:
        file.truncate(2**21 + 1)
    with pytest.raises(DamagedFile, match="is larger than 2 MiB, and is not read"):
        read_text(path, most=2**21)


READERS = re.compile(r"json\.load\(|(json\.loads|yaml\.\w*load)\([^\n]*read_text|np\.load\((?![^\n]*mmap_mode)")
"""NumPy's memory maps hold plain numbers, whose size is compared before."""


def test_files_of_others_are_read_in_one_place() -> None:
    """Depth, digits, aliases, pipes and folders are refused there for all."""
    source = Path(headtohead.__file__).parent
    of_the_package = {source / "pretrained" / "families.py"}  # reads a file that ships
    result = [
        f"{file.relative_to(source)}:{number}: {line.strip()}"
        for file in sorted(source.rglob("*.py"))
        if file.parent != source / "files" and file not in of_the_package
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if READERS.search(line)
    ]
    assert result == [], "use headtohead/files/safe_read.py or array_archive.py"


@pytest.mark.parametrize(
    "damage", ["text", "pickle", "another archive", "objects", "cut", "a folder", "an array", "flipped"]
)
def test_a_damaged_file_of_arrays_is_named(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "x.npz"
    np.savez_compressed(file, weights=np.arange(1000.0))
    whole = file.read_bytes()
    if damage == "objects":
        np.savez(file, weights=np.array([{}], dtype=object))
    elif damage == "an array":
        with file.open("wb") as opened:
            np.save(opened, np.arange(3))
    elif damage == "a folder":
        file.unlink()
        file.mkdir()
    else:
        contents = {
            "text": b"hello", "pickle": pickle.dumps({1: 2}), "another archive": b"PK\x05\x06" + bytes(18),
            "cut": whole[: len(whole) // 2], "flipped": whole[:80] + bytes(64) + whole[144:],
        }  # fmt: skip
        file.write_bytes(contents[damage])
    with pytest.raises(DamagedFile, match=r"x\.npz"), open_archive(file) as archive:
        archive["weights"][0]


def test_digits_are_those_that_numbers_are_read_from() -> None:
    """The sign of a square is a digit for `str.isdigit`, and no number for `int`; `str.isdecimal` is True of numbers
    alone."""
    package = Path(headtohead.__file__).parent
    files = {str(path.relative_to(package)): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert [name for name, text in files.items() if ".isdigit(" in text] == []


def test_arrays_that_would_fill_the_memory_are_refused_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.npz"
    np.savez_compressed(file, loss=np.zeros(10**5))
    with open_archive(file) as arrays:
        assert len(arrays["loss"]) == 10**5
    monkeypatch.setattr(safe_read, "MOST_UNPACKED", 10**5)
    with pytest.raises(DamagedFile, match="would take more than"), open_archive(file):
        pass
