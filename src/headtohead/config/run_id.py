"""A run's content: what of its configuration decides the result, and the hash of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from headtohead.comparison.conditions import COSMETIC, NAMES_AND_PATHS

_NOT_OF_THE_TRAINING = (*COSMETIC, "threads", "max_epochs", "batch_tokens")
"""Sums over other numbers of threads round otherwise, and that makes no other run; epochs are counted in steps, and
tokens of a batch in rows."""
_RUN_ID_LENGTH = 12
_START = "init_from"


def run_id(config: Mapping[str, object]) -> str:
    """Return a hash of what decides the result: the resolved configuration, its seed and the weights it starts from
    in it, without names and paths."""
    decides = deciding(config)
    if (origin := decides.get(_START)) is not None:
        decides[_START] = start_content(origin)
    text = json.dumps(decides, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_RUN_ID_LENGTH]


def deciding(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a configuration that decides the result."""
    trainer = {key: value for key, value in config["trainer"].items() if key not in _NOT_OF_THE_TRAINING}
    fields = {key: value for key, value in config.items() if key not in NAMES_AND_PATHS}
    return {**fields, "trainer": trainer}


_OF_A_RUN = ("checkpoints/best.ckpt", "tokenizer.json")
_PUBLISHED = ("*.json", "*.safetensors")
_ID_LENGTH = 12


def start_content(origin: str) -> str:
    """Return a digest of the weights and the tokenizer that init_from leads to, wherever they lie; what names its
    content by itself, as the commit of a published checkpoint does, stays as it is."""
    from headtohead.config.origins.from_weights import origin_of
    from headtohead.pretrained.checkpoint_reference import PREFIX

    if origin.startswith(PREFIX):
        folder = Path(origin.removeprefix(PREFIX)).expanduser()
        weights = (path for pattern in _PUBLISHED for path in folder.glob(pattern)) if folder.is_dir() else ()
        return _digest(folder, weights) or origin
    path = Path(origin_of(origin)).absolute()
    if not path.exists():
        return origin
    folder = path if path.is_dir() else path.parent
    return _digest(folder, (folder / name for name in _OF_A_RUN)) or origin


def _digest(folder: Path, files: Iterable[Path]) -> str | None:
    """Return None where there is no such file."""
    existing = sorted(path for path in files if path.is_file())
    digests = [f"{path.relative_to(folder)} {_digest_of(path, *_version(path))}" for path in existing]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[:_ID_LENGTH] if digests else None


def _version(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@lru_cache(maxsize=256)
def _digest_of(path: Path, inode: int, size: int, time: int) -> str:
    """Read once for each version of the file."""
    del inode, size, time
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
