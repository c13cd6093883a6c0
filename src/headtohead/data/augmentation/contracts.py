"""What every augmentation promises: another batch of the same rows, by draws that depend on the rows alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headtohead.data.batch import Batch
from headtohead.data.contracts import DataError, DataSource
from headtohead.data.randomness import uniform

_FIRST_STREAM = 1000
"""Keeps these draws apart from those of order and masking."""
_PARTS = 100
"""Independent draws of one augmentation."""


@dataclass(frozen=True)
class Draws:
    """Random numbers of a batch's rows, which follow from (seed, epoch, row) and the augmentation's place among the
    others: the same after a resume, and with any number of loader processes or devices."""

    rows: np.ndarray
    seed: int
    epoch: int
    place: int = 0

    def uniform(self, num_columns: int, part: int = 0) -> np.ndarray:
        """Float64 numbers in [0, 1), [B, columns]; `part` tells apart independent uses."""
        return uniform(self.rows, num_columns, seed=self.seed, epoch=self.epoch, stream=self._stream(part))

    def generators(self, part: int = 0) -> list[np.random.Generator]:
        """One for each row, where it is not known how many numbers it takes."""
        key = [self.seed, self.epoch, self._stream(part)]
        return [np.random.default_rng([*key, int(row)]) for row in self.rows]

    def _stream(self, part: int) -> int:
        return _FIRST_STREAM + self.place * _PARTS + part


class Augmentation(ABC):
    """One way to change what is trained on; what is evaluated on stays as it is."""

    data_kinds: ClassVar[tuple[str, ...]]
    """DataSpec.kind values that it can change."""
    cannot: ClassVar[dict[str, str]] = {}
    """Why it cannot change data of another kind: the kind, and the reason as it ends a sentence."""
    on_device: ClassVar[bool] = False
    """True where it changes the batch on its device; else beside the loader, before the task sees it."""

    def bind(self, source: DataSource) -> None:
        """Learn what the data holds; called once, before anything else. Raises DataError where it makes no sense."""
        del source

    def prepare(self) -> None:
        """Work that is done once per machine, before training; nothing, for most."""
        return

    @abstractmethod
    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        """A new batch of the same rows."""


def checked_rate(rate: float, field: str = "rate") -> float:
    if not 0 <= rate < 1:
        raise DataError(f"augmentation {field}={rate} must be at least 0 and below 1.")
    return rate
