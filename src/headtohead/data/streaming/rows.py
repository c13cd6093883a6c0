"""The train rows of a stream: those of each unit by themselves, so that a row is the same under every seed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch

from headtohead.data.batch import Batch
from headtohead.data.byte_counting import byte_counter
from headtohead.data.contracts import SplitName
from headtohead.data.rows import as_tensor, document_places, padded
from headtohead.data.source import CachedSource, CachedSplit
from headtohead.data.storage import ragged
from headtohead.data.streaming.order import InLanes, Lane, places_of
from headtohead.data.streaming.shelf import Shelf
from headtohead.data.tokenizers import SpecialIds, Tokenizer

_LANE_STREAM = 4
"""Keeps the orders of lanes apart from other uses of the same seed."""


class StreamedRows(CachedSplit, InLanes):
    """Documents packed as in a split that is all there, unit by unit: the last row of a unit may be shorter, and is
    padded, so that no token is lost."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        shelf: Shelf,
        units: Mapping[int, int],
        *,
        row_length: int,
        lanes: int,
        window: int,
        borders: SpecialIds | None,
        tokenizer: Tokenizer,
    ) -> None:
        """`units` with their numbers of documents; `window` in documents of one lane."""
        super().__init__(source, name)
        self._shelf, self._units, self._step = shelf, dict(units), row_length - 1
        self._num_lanes = min(lanes, len(self._units))
        largest = max(self._units.values())
        self._window = max(1, -(-window // largest))
        self._borders = borders
        self._counter = lru_cache(maxsize=256)(lambda unit: byte_counter(tokenizer, shelf.table(unit)))

    def __len__(self) -> int:
        """Of one pass; as long as not every unit was read, by the size of those that were."""
        sizes = self._shelf.known_sizes() or {0: self._shelf.size(next(iter(self._units)))}
        known = {unit: self._rows_of(size) for unit, size in sizes.items() if unit in self._units}
        documents = sum(self._units[unit] for unit in known)
        return round(sum(known.values()) * sum(self._units.values()) / max(documents, 1))

    def lanes(self, seed: int) -> list[Lane]:
        units, num_lanes = list(self._units), self._num_lanes
        return [
            Lane(
                units[lane::num_lanes],
                self.num_rows,
                self._shelf.want,
                window=self._window,
                seed=(seed, lane, _LANE_STREAM),
            )
            for lane in range(num_lanes)
        ]

    def num_rows(self, unit: int) -> int:
        return self._rows_of(self._shelf.size(unit))

    def _rows_of(self, num_tokens: int) -> int:
        """Each begins with the last token of the one before."""
        return -(-max(num_tokens - 1, 0) // self._step)

    def batch(self, rows: np.ndarray) -> Batch:
        units, places = places_of(rows)
        tokens = np.zeros((len(rows), self._step + 1), dtype=np.int64)
        valid = np.ones(tokens.shape, dtype=bool)
        num_bytes = 0
        for unit in np.unique(units).tolist():
            own = np.flatnonzero(units == unit)
            values = ragged(self._shelf.table(unit), "tokens").values
            starts = places[own] * self._step
            lengths = np.minimum(len(values) - starts, self._step + 1)
            found, real = padded(values, starts, lengths)
            tokens[own, : found.shape[1]], valid[own, : found.shape[1]] = found, real
            valid[own, found.shape[1] :] = False
            num_bytes += int(self._counter(unit).count(found[:, 1:][real[:, 1:]], starts + 1, starts + lengths))
        segments, positions = (
            (None, None) if self._borders is None else document_places(self._borders.beginnings(tokens))
        )
        return Batch(
            rows=as_tensor(rows),
            tokens=torch.from_numpy(tokens),
            valid=None if valid.all() else torch.from_numpy(valid),
            segments=segments,
            positions=positions,
            num_bytes=torch.tensor(num_bytes),
        )
