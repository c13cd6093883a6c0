"""What is known of published sets on this machine: listings of repositories, and which files were fetched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.data.places import cache_root
from headtohead.files.writing import replace_text

_FOLDER = "published"


def recall(name: str, key: str) -> Any:
    """What was remembered of a repository, None where there is nothing, or nothing that can be read."""
    try:
        return json.loads(_file(name, key).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def remember(name: str, key: str, known: Any) -> None:
    """Whole or not at all, whoever else writes at the same time; raises OSError."""
    file = _file(name, key)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, json.dumps(known))


def remember_fetched(name: str, subset: str | None, revision: str, split: str, paths: Sequence[Path]) -> None:
    """That these files of a split are here; raises OSError."""
    key = _fetched(subset, revision)
    known: Mapping[str, list[str]] = recall(name, key) or {}
    told = {**known, split: [str(path) for path in paths]}
    if told != known:
        remember(name, key, told)


def is_fetched(name: str, subset: str | None, revision: str | None) -> bool:
    """Whether all files that were once fetched for a set are still here; without a revision, of the one kept."""
    revision = revision or recall(name, KEPT)
    known: dict[str, list[str]] = (recall(name, _fetched(subset, revision)) if revision else None) or {}
    return bool(known) and all(Path(path).exists() for paths in known.values() for path in paths)


KEPT = "kept"
"""The key of the revision that a machine found first, where none is given."""


def listing_of(revision: str) -> str:
    """The key of the files of a revision."""
    return f"files-{revision}"


def _fetched(subset: str | None, revision: str) -> str:
    return f"fetched-{revision}-{subset or ''}"


def _file(name: str, key: str) -> Path:
    return cache_root() / _FOLDER / name.replace("/", "--") / f"{key.replace('/', '--')}.json"
