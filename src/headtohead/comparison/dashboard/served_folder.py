"""The folder that is served: its files and folders, where a link that leads out of it is not followed, and the stars
and notes that a reader gives to runs, which lie in one of its files and outlive the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from headtohead.errors import UsageError
from headtohead.files.atomic_write import replace_text
from headtohead.files.safe_read import parse_json, read_object


def is_inside(root: Path, path: Path) -> bool:
    """Return whether `path`, with links followed, is `root` or below it."""
    return path.resolve().is_relative_to(root.resolve())


def files_below(root: Path, folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield files of these kinds directly in `folder`, by name."""
    if folder.is_dir() and is_inside(root, folder):
        for path in sorted(folder.iterdir()):
            if path.suffix in suffixes and path.is_file() and is_inside(root, path):
                yield path


def folders_in(root: Path, folder: Path) -> list[Path]:
    """Return its own folders, by name; hidden ones are ignored."""
    if not (folder.is_dir() and is_inside(root, folder)):
        return []
    folders = [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_dir()]
    return sorted(path for path in folders if is_inside(root, path))


FILE = "dashboard_marks.json"
LONGEST_NOTE = 4000
_WAY_OUT = "correct it, or move it away"


class Mark(NamedTuple):
    """A mark is what a reader says of one run."""

    star: bool = False
    note: str = ""


class Marks:
    """The marks of the runs below a folder, by the path of a run below it."""

    def __init__(self, root: Path) -> None:
        self._file = root / FILE
        self._marks: dict[str, Mark] = {}
        self.starred: set[str] = set()
        with suppress(OSError, UsageError):  # a damaged file is no reason to show no runs
            self._read()

    def __getitem__(self, key: str) -> Mark:
        return self._marks.get(key, Mark())

    def put(self, key: str, mark: Mark) -> None:
        """Set the mark of a run and write all marks, those that another dashboard wrote meanwhile among them; a file
        that cannot be read is not replaced."""
        with suppress(FileNotFoundError):
            self._read()
        self._marks[key] = mark
        if mark == Mark():
            del self._marks[key]
        (self.starred.add if mark.star else self.starred.discard)(key)
        content = {key: mark._asdict() for key, mark in sorted(self._marks.items())}
        replace_text(self._file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def _read(self) -> None:
        """Read what the file holds, in place of what was known."""
        self._marks = {key: _mark_of(value) for key, value in read_object(self._file, way_out=_WAY_OUT).items()}
        self.starred.clear()
        self.starred |= {key for key, mark in self._marks.items() if mark.star}


def _mark_of(value: object) -> Mark:
    """Return the mark that a file or a page gives; what is not one of its fields is ignored."""
    known = value if isinstance(value, dict) else {}
    note = known.get("note")
    return Mark(known.get("star") is True, note[:LONGEST_NOTE] if isinstance(note, str) else "")


def mark_in(body: bytes) -> tuple[str, Mark]:
    """Return the run and the mark that a page sends."""
    try:
        value = parse_json(body.decode(), "the mark")
    except ValueError:
        raise UsageError("a mark is JSON: {run, star, note}") from None
    if not isinstance(value, dict) or not isinstance(value.get("run"), str):
        raise UsageError("a mark names its run: {run, star, note}")
    return value["run"], _mark_of(value)
