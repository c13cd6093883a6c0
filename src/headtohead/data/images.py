"""Labelled images as rows: kept as bytes, read as numbers from -1 to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from headtohead.data.batch import Batch
from headtohead.data.contracts import SPLIT_NAMES, SplitName
from headtohead.data.rows import as_tensor
from headtohead.data.source import CachedSource, CachedSplit


class ImageRows(CachedSplit):
    """Black is -1 and the brightest value 1."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        images: np.ndarray,
        labels: np.ndarray,
        shape: tuple[int, int, int],
        brightest: int,
    ) -> None:
        """An image is a row of bytes: channels, then lines from the top."""
        super().__init__(source, name)
        self._images, self._labels, self._shape, self._brightest = images, labels, shape, brightest

    def __len__(self) -> int:
        return len(self._images)

    def batch(self, rows: np.ndarray) -> Batch:
        pixels = self._images[rows].astype(np.float32).reshape(-1, *self._shape)
        return Batch(
            rows=as_tensor(rows),
            images=torch.from_numpy(pixels * (2 / self._brightest) - 1),
            targets=as_tensor(self._labels[rows]),
        )


def described_images(batch: Batch, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """The pixels and the name of the class."""
    assert batch.images is not None and batch.targets is not None
    samples = zip(batch.rows, batch.images, batch.targets, strict=True)
    return [
        {"row": int(row), "image": image.numpy(), "label": class_names[int(label)]} for row, image, label in samples
    ]


def stratified(
    labels: np.ndarray, shares: Mapping[SplitName, float], generator: np.random.Generator
) -> dict[SplitName, np.ndarray]:
    """Shuffled row numbers of train and of the splits that have shares, in which every class has its own; the train
    split takes what is left."""
    parts: dict[SplitName, list[np.ndarray]] = {name: [] for name in SPLIT_NAMES if name == "train" or name in shares}
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        start = 0
        for name, share in shares.items():
            stop = start + round(share * len(rows))
            parts[name].append(rows[start:stop])
            start = stop
        parts["train"].append(rows[start:])
    return {name: generator.permutation(np.concatenate(pieces)) for name, pieces in parts.items()}
