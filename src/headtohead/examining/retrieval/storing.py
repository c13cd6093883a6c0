"""An index on disk: vectors in a file that is mapped into memory, in a folder that is whole or not there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headtohead.data.caching import alone, told_when_full
from headtohead.data.contracts import DataError
from headtohead.data.places import cache_root
from headtohead.errors import UsageError

FORMAT = 1
"""Goes up whenever vectors of the same texts would differ."""
_MANIFEST, _SUFFIX = "manifest.json", ".npy"


@dataclass(frozen=True)
class Stored:
    """Arrays by name, mapped: nothing is read before it is asked for."""

    folder: Path
    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any] = field(default_factory=dict)
    was_there: bool = True

    @property
    def num_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


Make = Callable[[Path], Mapping[str, Any]]
"""Writes arrays into a folder, and gives facts about them."""


def stored(name: str, make: Make) -> Stored:
    """From the cache if it is there; of two processes that want it at once, one makes it and the other waits."""
    folder = cache_root() / "embeddings" / f"{name}-{FORMAT}"
    was_there = folder.exists()
    if not was_there:
        with alone(folder):
            if not folder.exists():
                _make(folder, make)
    return _read(folder, was_there)


def new_array(folder: Path, name: str, shape: tuple[int, ...], dtype: type[np.generic]) -> np.memmap:
    """To be filled piece by piece, without holding the whole."""
    array: np.memmap = np.lib.format.open_memmap(folder / f"{name}{_SUFFIX}", mode="w+", dtype=dtype, shape=shape)
    return array


def _make(folder: Path, make: Make) -> None:
    unfinished = folder.with_name(f".unfinished-{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed: this one holds the lock
    try:
        with told_when_full(folder):
            unfinished.mkdir(parents=True)
            facts = make(unfinished)
            arrays = {file.stem: file.stat().st_size for file in sorted(unfinished.glob(f"*{_SUFFIX}"))}
            manifest = {"facts": dict(facts), "arrays": arrays}
            (unfinished / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _read(folder: Path, was_there: bool) -> Stored:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        files = {name: folder / f"{name}{_SUFFIX}" for name in manifest["arrays"]}
        for name, size in manifest["arrays"].items():
            if files[name].stat().st_size != size:
                raise UsageError(f"{files[name].name} has not the length that was written")
        arrays = {name: np.load(file, mmap_mode="r") for name, file in files.items()}
        return Stored(folder, arrays, manifest["facts"], was_there)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"the cache folder {folder} is damaged ({error}): delete it, and it is made anew.") from error
