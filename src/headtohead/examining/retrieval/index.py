"""Vectors of a collection, searched by cosine: in 32 bits, or in 8 with a scale for each vector or each dimension."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from headtohead.building.errors import ConfigurationError
from headtohead.data.storage import slices
from headtohead.examining.retrieval.collection import Collection, digest_of
from headtohead.examining.retrieval.embedder import Embedder, Vectors, embed_in_batches
from headtohead.examining.retrieval.ordering import Ranking, best, merged
from headtohead.examining.retrieval.storing import Stored, new_array, stored
from headtohead.training.display import Display

Scales = Literal["vector", "dimension"]
_LARGEST = 127
_TEXTS_AT_ONCE, _QUERIES_AT_ONCE = 2**15, 64


class Index:
    """Rows of a collection by number; what is stored is given whole, and never changed."""

    def __init__(self, kept: Stored) -> None:
        self.kept = kept
        self.vectors, self.scales = kept.arrays["vectors"], kept.arrays.get("scales")

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def num_bytes(self) -> int:
        return self.kept.num_bytes

    def cosines(self, queries: Float[np.ndarray, "Q D"], documents: slice | np.ndarray) -> Float[np.ndarray, "Q N"]:
        """Of unit vectors with these documents."""
        held = np.asarray(self.vectors[documents], dtype=np.float32)
        if self.scales is None:
            cosines: np.ndarray = queries @ held.T
        elif self.kept.facts["scales"] == "vector":
            cosines = queries @ held.T * self.scales[documents]
        else:
            cosines = (queries * self.scales) @ held.T
        return cosines

    def search(self, queries: Vectors, depth: int) -> list[Ranking]:
        """The nearest documents of each query; exact, over all of them."""
        found = []
        for part in slices(len(queries), _QUERIES_AT_ONCE) if len(queries) else []:
            found += self._search(queries[part], depth)
        return found

    def _search(self, queries: Vectors, depth: int) -> list[Ranking]:
        kept: list[Ranking] | None = None
        for part in slices(len(self.vectors), _TEXTS_AT_ONCE):
            numbers = np.arange(part.start, part.stop)
            here = [best(scores, depth, numbers) for scores in self.cosines(queries, part)]
            kept = here if kept is None else [merged(*both, depth) for both in zip(kept, here, strict=True)]
        assert kept is not None, "a collection is not empty"
        return kept


def build(embedder: Embedder, collection: Collection) -> Index:
    """Each vector once for these weights and these texts, whoever asks again."""

    def make(folder: Path) -> dict[str, Any]:
        started, before = time.perf_counter(), embedder.num_cut
        array = new_array(folder, "vectors", (len(collection), embedder.width), np.float32)
        display = Display(
            f"embedding by {embedder.run.record.name}", start=0, total=len(collection), wanted=True, unit="texts"
        )
        done = 0

        def keep(start: int, vectors: Vectors) -> None:
            array[start : start + len(vectors)] = vectors

        def tell(number: int) -> None:
            nonlocal done
            done = number
            display.step(number)

        try:
            embed_in_batches(embedder, collection.texts, keep, tell)
            array.flush()
        finally:
            display.close(done)
        return {"seconds": time.perf_counter() - started, "num_cut": embedder.num_cut - before}

    return Index(stored(_name(embedder, collection), make))


def in_8_bits(embedder: Embedder, collection: Collection, index: Index, scales: Scales) -> Index:
    """The same vectors as whole numbers up to 127 times a scale: of the vector, or of the dimension over all."""
    check_scales(scales)

    def make(folder: Path) -> dict[str, Any]:
        axis = 1 if scales == "vector" else 0
        largest = np.zeros(index.vectors.shape[1 - axis], dtype=np.float32)
        for part in slices(len(index), _TEXTS_AT_ONCE):
            here = np.abs(index.vectors[part]).max(axis=axis)
            if scales == "vector":
                largest[part] = here
            else:
                largest = np.maximum(largest, here)
        kept = new_array(folder, "scales", largest.shape, np.float32)
        kept[:] = np.maximum(largest, np.finfo(np.float32).tiny) / _LARGEST
        array = new_array(folder, "vectors", index.vectors.shape, np.int8)
        for part in slices(len(index), _TEXTS_AT_ONCE):
            by = kept[part, None] if scales == "vector" else kept
            array[part] = np.rint(index.vectors[part] / by).astype(np.int8)
        array.flush()
        kept.flush()
        return {**index.kept.facts, "scales": scales}

    return Index(stored(f"{_name(embedder, collection)}-{scales}", make))


def check_scales(scales: str) -> None:
    if scales not in get_args(Scales):
        raise ConfigurationError(f"--int8 {scales} is unknown: choose one of {', '.join(get_args(Scales))}")


def _name(embedder: Embedder, collection: Collection) -> str:
    """Vectors do not depend on the ids of texts."""
    return f"{embedder.fingerprint}-{digest_of(collection.texts)}"
