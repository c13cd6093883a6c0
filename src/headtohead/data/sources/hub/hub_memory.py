"""Remember the hub's answers, so that data fetched once can be read offline; `h2h list` reads them without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.data.cache.paths import cache_root
from headtohead.files.atomic_write import replace_text
from headtohead.files.safe_read import read_json

_FOLDER = "published"


def recall(name: str, key: str) -> Any:
    """Return what was remembered of a repository, None where there is nothing, or nothing readable."""
    try:
        return read_json(_file(name, key))
    except (OSError, ValueError):
        return None


def remember(name: str, key: str, known: Any) -> None:
    """Remember a value atomically, whoever else writes at the same time; raise OSError."""
    file = _file(name, key)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, json.dumps(known))


def remember_fetched(name: str, subset: str | None, revision: str, split: str, paths: Sequence[Path]) -> None:
    """Remember that these files of a split are here; raise OSError."""
    key = _fetched(subset, revision)
    known = _fetched_files(name, key)
    updated = {**known, split: [str(path) for path in paths]}
    if updated != known:
        remember(name, key, updated)


def is_fetched(name: str, subset: str | None, revision: str | None) -> bool:
    """Return whether all files that were once fetched for a set are still here; without a revision, those of the
    remembered one."""
    revision = revision or recall(name, SAVED)
    known = _fetched_files(name, _fetched(subset, revision)) if isinstance(revision, str) else {}
    return bool(known) and all(Path(path).exists() for paths in known.values() for path in paths)


def _fetched_files(name: str, key: str) -> Mapping[str, list[str]]:
    """Return the files of each split that were fetched, none where the memory does not say."""
    known = recall(name, key)
    lists = known.values() if isinstance(known, dict) else [None]
    is_whole = all(isinstance(paths, list) and all(isinstance(path, str) for path in paths) for paths in lists)
    return known if is_whole else {}


SAVED = "kept"
"""The key of the revision that a machine found first, where none is given."""


def listing_of(revision: str) -> str:
    """Return the key of the files of a revision."""
    return f"files-{revision}"


def _fetched(subset: str | None, revision: str) -> str:
    return f"fetched-{revision}-{subset or ''}"


def _file(name: str, key: str) -> Path:
    return cache_root() / _FOLDER / name.replace("/", "--") / f"{key.replace('/', '--')}.json"
