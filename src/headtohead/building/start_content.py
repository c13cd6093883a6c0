"""What a run starts from, by its content: other weights under the same path make another run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

_OF_A_RUN = ("checkpoints/best.ckpt", "tokenizer.json")
_PUBLISHED = ("*.json", "*.safetensors")
_ID_LENGTH = 12


def start_content(origin: str) -> str:
    """A digest of the weights and the tokenizer that init_from leads to, wherever they lie; what names its content by
    itself, as the commit of a published checkpoint does, stays as it is."""
    from headtohead.building.published import PREFIX
    from headtohead.building.starting import origin_of

    if origin.startswith(PREFIX):
        folder = Path(origin.removeprefix(PREFIX)).expanduser()
        found = (path for pattern in _PUBLISHED for path in folder.glob(pattern)) if folder.is_dir() else ()
        return _digest(folder, found) or origin
    place = Path(origin_of(origin)).absolute()
    if not place.exists():
        return origin
    folder = place if place.is_dir() else place.parent
    return _digest(folder, (folder / name for name in _OF_A_RUN)) or origin


def _digest(folder: Path, files: Iterable[Path]) -> str | None:
    """None where there is no such file."""
    found = sorted(path for path in files if path.is_file())
    digests = [f"{path.relative_to(folder)} {_digest_of(path, *_version(path))}" for path in found]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[:_ID_LENGTH] if digests else None


def _version(path: Path) -> tuple[int, int, int]:
    told = path.stat()
    return told.st_ino, told.st_size, told.st_mtime_ns


@lru_cache(maxsize=256)
def _digest_of(path: Path, inode: int, size: int, time: int) -> str:
    """Read once for each version of the file."""
    del inode, size, time
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
