"""What killed processes left of files that they were writing."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

from headtohead.files.writing import SUFFIX

_OLDER = re.compile(r"\.(record\.json|config\.yaml|metrics\.csv|tokenizer\.json)\.\w{8}")
"""What a program that names unfinished files by six or eight letters leaves of ours."""


def sweep(folder: Path, *, older_than: float = 0.0) -> list[Path]:
    """Remove unfinished files from a folder and those one and two below it, and return what was removed.

    Give an age in seconds where others may be writing at this moment: a file that is being written is young.
    """
    oldest, removed = time.time() - older_than, []
    for depth in ("*", "*/*", "*/*/*"):
        for file in _unfinished(folder, depth):
            try:
                if file.lstat().st_mtime <= oldest:
                    file.unlink()
                    removed.append(file)
            except OSError:  # gone by itself, or not ours to remove
                continue
    return removed


def _unfinished(folder: Path, depth: str) -> Iterator[Path]:
    for file in folder.glob(depth):
        if (file.suffix == SUFFIX or _OLDER.fullmatch(file.name)) and not file.is_dir():
            yield file
