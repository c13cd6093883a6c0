"""Labelled images as rows: kept as bytes, read as numbers around 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.data.batch import Batch
from headtohead.data.contracts import SPLIT_NAMES, SplitName
from headtohead.data.rows import as_tensor
from headtohead.data.source import CachedSource, CachedSplit
from headtohead.data.storage import slices

_MIDDLE = 0.5
_BRIGHTEST = 255
_AT_ONCE = 2**23
"""Pixels whose sums are taken together."""
_LEAST_DEVIATION = 1e-3
"""Of a channel that is the same everywhere."""


class ImageRows(CachedSplit):
    """Black is -1 and the brightest value 1, unless a mean and a deviation are given, for which both are 0 and 1."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        images: np.ndarray,
        labels: np.ndarray,
        shape: tuple[int, int, int],
        brightest: int,
        *,
        places: np.ndarray | None = None,
        mean: Sequence[float] = (),
        deviation: Sequence[float] = (),
    ) -> None:
        """An image is a row of bytes: channels, then lines from the top. `places` says which of them, and of the
        labels, the rows of the split are."""
        super().__init__(source, name)
        self._images, self._labels, self._shape = images, labels, shape
        self._places = np.arange(len(images)) if places is None else places
        self._scale = brightest, mean, deviation

    def __len__(self) -> int:
        return len(self._places)

    def batch(self, rows: np.ndarray) -> Batch:
        places = self._places[rows]
        return Batch(
            rows=as_tensor(rows),
            images=normalised(self._images[places], self._shape, *self._scale),
            targets=as_tensor(self._labels[places]),
        )


def normalised(
    pixels: np.ndarray, shape: tuple[int, int, int], brightest: int, mean: Sequence[float], deviation: Sequence[float]
) -> Float[Tensor, "B C H W"]:
    """What a model reads of rows of bytes."""
    middle = [_MIDDLE] * shape[0]
    shift, width = (np.array(numbers or middle)[:, None, None] for numbers in (mean, deviation))
    factor, offset = ((1 / (brightest * width)).astype(np.float32), (shift / width).astype(np.float32))
    return torch.from_numpy(pixels.astype(np.float32).reshape(-1, *shape) * factor - offset)


def mean_and_deviation(
    images: np.ndarray, places: np.ndarray, shape: tuple[int, int, int]
) -> tuple[list[float], list[float]]:
    """Of each channel over some of the images, black being 0 and the brightest value 1."""
    sums, squares, count = np.zeros(shape[0]), np.zeros(shape[0]), len(places) * shape[1] * shape[2]
    for piece in slices(len(places), max(_AT_ONCE // images.shape[1], 1)):
        pixels = images[places[piece]].reshape(-1, shape[0], shape[1] * shape[2])
        sums += pixels.sum((0, 2), dtype=np.int64) / _BRIGHTEST
        squares += np.square(pixels, dtype=np.int64).sum((0, 2)) / _BRIGHTEST**2
    mean = sums / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
    return mean.tolist(), np.maximum(deviation, _LEAST_DEVIATION).tolist()


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
