"""Vectors of a collection, searched by cosine in 32 bits."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from headtohead.data.cache.arrow_columns import slices
from headtohead.data.cache.paths import cache_root
from headtohead.data.cache.prepared_content import disk_full_message, exclusive_lock
from headtohead.data.data_source import DataError
from headtohead.errors import UsageError
from headtohead.files.atomic_write import move_into_place
from headtohead.files.safe_read import read_json
from headtohead.finished_runs.embedding.collection import Collection, digest_of
from headtohead.finished_runs.embedding.embedder import Embedder, Vectors, embed_in_batches
from headtohead.finished_runs.embedding.rankings import DocumentRanking, best, merged
from headtohead.training.callbacks.progress import ProgressLine

_TEXTS_AT_ONCE, _QUERIES_AT_ONCE = 2**15, 64


class Index:
    """Rows of a collection by number; what is stored is given whole, and never changed."""

    def __init__(self, stored: StoredIndex) -> None:
        self.stored = stored
        self.vectors = stored.arrays["vectors"]

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def num_bytes(self) -> int:
        return self.stored.num_bytes

    def cosines(self, queries: Float[np.ndarray, "Q D"], documents: slice | np.ndarray) -> Float[np.ndarray, "Q N"]:
        """Return the cosines of unit vectors with these documents."""
        cosines: np.ndarray = queries @ np.asarray(self.vectors[documents], dtype=np.float32).T
        return cosines

    def search(self, queries: Vectors, depth: int) -> list[DocumentRanking]:
        """Return the nearest documents of each query; exact, over all of them."""
        rankings = []
        for part in slices(len(queries), _QUERIES_AT_ONCE) if len(queries) else []:
            rankings += self._search(queries[part], depth)
        return rankings

    def _search(self, queries: Vectors, depth: int) -> list[DocumentRanking]:
        nearest: list[DocumentRanking] | None = None
        for part in slices(len(self.vectors), _TEXTS_AT_ONCE):
            numbers = np.arange(part.start, part.stop)
            here = [best(scores, depth, numbers) for scores in self.cosines(queries, part)]
            nearest = here if nearest is None else [merged(*both, depth) for both in zip(nearest, here, strict=True)]
        assert nearest is not None, "a collection is not empty"
        return nearest


def build(embedder: Embedder, collection: Collection) -> Index:
    """Build each vector once for these weights and these texts, for all processes."""

    def make(folder: Path) -> dict[str, Any]:
        started, before = time.perf_counter(), embedder.num_cut
        array = new_array(folder, "vectors", (len(collection), embedder.width), np.float32)
        display = ProgressLine(
            f"embedding by {embedder.run.record.name}", start=0, total=len(collection), enabled=True, unit="texts"
        )
        done = 0

        def keep(start: int, vectors: Vectors) -> None:
            array[start : start + len(vectors)] = vectors

        def report_batch(number: int) -> None:
            nonlocal done
            done = number
            display.step(number)

        try:
            embed_in_batches(embedder, collection.texts, keep, report_batch)
            array.flush()
        finally:
            display.close(done)
        return {"seconds": time.perf_counter() - started, "num_cut": embedder.num_cut - before}

    return Index(stored(_name(embedder, collection), make))


def _name(embedder: Embedder, collection: Collection) -> str:
    """Vectors do not depend on the ids of texts."""
    return f"{embedder.fingerprint}-{digest_of(collection.texts)}"


FORMAT = 1
"""Goes up whenever vectors of the same texts would differ."""
_MANIFEST, _SUFFIX = "manifest.json", ".npy"


@dataclass(frozen=True)
class StoredIndex:
    """Arrays by name, mapped: nothing is read before it is requested."""

    folder: Path
    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any] = field(default_factory=dict)
    was_there: bool = True

    @property
    def num_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


Make = Callable[[Path], Mapping[str, Any]]
"""Writes arrays into a folder, and gives facts about them."""


def stored(name: str, make: Make) -> StoredIndex:
    """Return the index from the cache if it is there; if two processes want it at once, one builds it and the other
    waits."""
    folder = cache_root() / "embeddings" / f"{name}-{FORMAT}"
    was_there = folder.exists()
    if not was_there:
        with exclusive_lock(folder):
            if not folder.exists():
                _make(folder, make)
    return _read(folder, was_there)


def new_array(folder: Path, name: str, shape: tuple[int, ...], dtype: type[np.generic]) -> np.memmap:
    """Create an array on disk that is filled piece by piece, so that memory never holds the whole."""
    array: np.memmap = np.lib.format.open_memmap(folder / f"{name}{_SUFFIX}", mode="w+", dtype=dtype, shape=shape)
    return array


def _make(folder: Path, make: Make) -> None:
    unfinished = folder.with_name(f".unfinished-{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed: this one holds the lock
    try:
        with disk_full_message(folder):
            unfinished.mkdir(parents=True)
            facts = make(unfinished)
            arrays = {file.stem: file.stat().st_size for file in sorted(unfinished.glob(f"*{_SUFFIX}"))}
            manifest = {"facts": dict(facts), "arrays": arrays}
            (unfinished / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
            move_into_place(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _read(folder: Path, was_there: bool) -> StoredIndex:
    try:
        manifest = read_json(folder / _MANIFEST)
        files = {name: folder / f"{name}{_SUFFIX}" for name in manifest["arrays"]}
        for name, size in manifest["arrays"].items():
            if files[name].stat().st_size != size:
                raise UsageError(f"{files[name].name} does not have the length that was written")
        arrays = {name: np.load(file, mmap_mode="r") for name, file in files.items()}
        return StoredIndex(folder, arrays, manifest["facts"], was_there)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"the cache folder {folder} is damaged ({error}): delete it, and it is created again."
        ) from error
