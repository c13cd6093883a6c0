"""Labelled images as rows: stored as bytes, read as numbers around 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.data.batches.batch import Batch
from headtohead.data.cache.arrow_columns import slices
from headtohead.data.cache.cached_source import CachedSource, CachedSplit
from headtohead.data.data_source import SPLIT_NAMES, DataSpec, SplitName
from headtohead.data.row_formats.token_rows import as_tensor
from headtohead.data.tokenizers import SPECIAL_TOKENS

_MIDDLE = 0.5
_BRIGHTEST = 255
_AT_ONCE = 2**23
"""Pixels whose sums are taken together."""
_LEAST_DEVIATION = 1e-3
"""The deviation of a channel that is constant."""


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
        indices: np.ndarray | None = None,
        mean: Sequence[float] = (),
        deviation: Sequence[float] = (),
    ) -> None:
        """Set up the rows; an image is a row of bytes: channels, then lines from the top. `indices` selects the images
        and labels of the split."""
        super().__init__(source, name)
        self._images, self._labels, self._shape = images, labels, shape
        self._indices = np.arange(len(images)) if indices is None else indices
        self._scale = brightest, mean, deviation

    def __len__(self) -> int:
        return len(self._indices)

    def batch(self, rows: np.ndarray) -> Batch:
        indices = self._indices[rows]
        return Batch(
            rows=as_tensor(rows),
            images=normalised(self._images[indices], self._shape, *self._scale),
            targets=as_tensor(self._labels[indices]),
        )


def normalised(
    pixels: np.ndarray, shape: tuple[int, int, int], brightest: int, mean: Sequence[float], deviation: Sequence[float]
) -> Float[Tensor, "B C H W"]:
    """Return what a model reads for rows of bytes."""
    middle = [_MIDDLE] * shape[0]
    shift, width = (np.array(numbers or middle)[:, None, None] for numbers in (mean, deviation))
    factor, offset = ((1 / (brightest * width)).astype(np.float32), (shift / width).astype(np.float32))
    return torch.from_numpy(pixels.astype(np.float32).reshape(-1, *shape) * factor - offset)


def mean_and_deviation(
    images: np.ndarray, indices: np.ndarray, shape: tuple[int, int, int]
) -> tuple[list[float], list[float]]:
    """Return the mean and deviation of each channel over some of the images, black being 0 and the brightest value
    1."""
    sums, squares, count = np.zeros(shape[0]), np.zeros(shape[0]), len(indices) * shape[1] * shape[2]
    for piece in slices(len(indices), max(_AT_ONCE // images.shape[1], 1)):
        pixels = images[indices[piece]].reshape(-1, shape[0], shape[1] * shape[2])
        sums += pixels.sum((0, 2), dtype=np.int64) / _BRIGHTEST
        squares += np.square(pixels, dtype=np.int64).sum((0, 2)) / _BRIGHTEST**2
    mean = sums / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
    return mean.tolist(), np.maximum(deviation, _LEAST_DEVIATION).tolist()


def described_images(batch: Batch, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the pixels and the name of the class."""
    assert batch.images is not None and batch.targets is not None
    samples = zip(batch.rows, batch.images, batch.targets, strict=True)
    return [
        {"row": int(row), "image": image.numpy(), "label": class_names[int(label)]} for row, image, label in samples
    ]


def stratified(
    labels: np.ndarray, shares: Mapping[SplitName, float], generator: np.random.Generator
) -> dict[SplitName, np.ndarray]:
    """Return shuffled row numbers of train and of the splits that have shares, stratified by class; the train split
    takes the rest."""
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


_NUM_LEVELS = 256
_FIRST_ID = len(SPECIAL_TOKENS)


class PixelRows(CachedSplit):
    """All as long as each other."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        images: np.ndarray,
        labels: np.ndarray,
        indices: np.ndarray | None = None,
    ) -> None:
        """Set up the rows; `indices` selects the images and labels of the split."""
        super().__init__(source, name)
        self._images, self._labels = images, labels
        self._indices = np.arange(len(images)) if indices is None else indices

    def __len__(self) -> int:
        return len(self._indices)

    def batch(self, rows: np.ndarray) -> Batch:
        indices = self._indices[rows]
        levels = self._images[indices].astype(np.int64)
        return Batch(
            rows=as_tensor(rows), tokens=as_tensor(_FIRST_ID + levels), targets=as_tensor(self._labels[indices])
        )


def spec_of_pixels(images: DataSpec) -> DataSpec:
    """Describe these images as rows of tokens."""
    assert images.image_shape is not None
    return replace(
        images,
        kind="labelled_text",
        vocab_size=_FIRST_ID + _NUM_LEVELS,
        max_length=int(np.prod(images.image_shape)),
        image_shape=None,
        image_mean=(),
        image_deviation=(),
    )


def decoded_pixels(ids: Sequence[int]) -> str:
    """Return levels with spaces between."""
    return " ".join(SPECIAL_TOKENS[token] if token < _FIRST_ID else str(token - _FIRST_ID) for token in ids)


def described_pixels(batch: Batch, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the levels and the name of the class."""
    assert batch.tokens is not None and batch.targets is not None
    samples = zip(batch.rows.tolist(), batch.tokens, batch.targets.tolist(), strict=True)
    return [
        {"row": row, "text": decoded_pixels(tokens.tolist()), "label": class_names[label]}
        for row, tokens, label in samples
    ]
