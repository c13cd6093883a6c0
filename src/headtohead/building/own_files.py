"""A user's own configuration files, looked at before Hydra composes them: a damaged one is named."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from headtohead.files.reading import DamagedFile, read_yaml


def check_chosen(overrides: Sequence[str], folders: Sequence[Path]) -> None:
    """Raise DamagedFile for a choice of a user's folder, group=choice, whose file holds no fields."""
    for folder in folders:
        for path in _chosen(overrides, folder):
            if os.path.lexists(path):
                _check(path)


def check_all(folders: Sequence[Path]) -> None:
    """Raise DamagedFile for the first file of a user's folders that is damaged, chosen by name or by another file."""
    for folder in folders:
        for path in sorted(folder.rglob("*.yaml")):
            _check(path)


def _chosen(overrides: Sequence[str], folder: Path) -> Iterator[Path]:
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        for name in value.strip("[]").split(","):
            yield folder / key.partition("@")[0] / f"{name.strip()}.yaml"


def _check(path: Path) -> None:
    content = read_yaml(path)
    if content is not None and not isinstance(content, dict):
        raise DamagedFile(path, f"is {type(content).__name__}, where fields are expected", "write them as field: value")
