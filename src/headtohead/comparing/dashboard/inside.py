"""Nothing outside the folder that is shown is ever read, whatever links lie in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def is_inside(root: Path, path: Path) -> bool:
    """Whether what `path` leads to, links followed, lies at or below `root`."""
    return path.resolve().is_relative_to(root.resolve())


def files_below(root: Path, folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Files of these kinds directly in `folder`, by name."""
    if folder.is_dir() and is_inside(root, folder):
        for path in sorted(folder.iterdir()):
            if path.suffix in suffixes and path.is_file() and is_inside(root, path):
                yield path


def folders_in(root: Path, folder: Path) -> list[Path]:
    """Its own folders, by name; those whose name begins with a dot are nobody's business."""
    if not (folder.is_dir() and is_inside(root, folder)):
        return []
    found = [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_dir()]
    return sorted(path for path in found if is_inside(root, path))
