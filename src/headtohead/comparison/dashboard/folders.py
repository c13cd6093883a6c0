"""Files and folders below the one that is served: a link that leads out of it is not followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


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
