"""Images as rows of tokens: one for each pixel, line by line, which is its level from 0 to 255; where there are
colours, all of one before the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headtohead.data.batch import Batch
from headtohead.data.contracts import DataSpec, SplitName
from headtohead.data.rows import as_tensor
from headtohead.data.source import CachedSource, CachedSplit
from headtohead.data.tokenizers import SPECIAL_TOKENS

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
        places: np.ndarray | None = None,
    ) -> None:
        """`places` says which of the images, and of the labels, the rows of the split are."""
        super().__init__(source, name)
        self._images, self._labels = images, labels
        self._places = np.arange(len(images)) if places is None else places

    def __len__(self) -> int:
        return len(self._places)

    def batch(self, rows: np.ndarray) -> Batch:
        places = self._places[rows]
        levels = self._images[places].astype(np.int64)
        return Batch(
            rows=as_tensor(rows), tokens=as_tensor(_FIRST_ID + levels), targets=as_tensor(self._labels[places])
        )


def spec_of_pixels(images: DataSpec) -> DataSpec:
    """What these images are as rows of tokens."""
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
    """Levels with spaces between."""
    return " ".join(SPECIAL_TOKENS[token] if token < _FIRST_ID else str(token - _FIRST_ID) for token in ids)


def described_pixels(batch: Batch, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """The levels and the name of the class."""
    assert batch.tokens is not None and batch.targets is not None
    samples = zip(batch.rows.tolist(), batch.tokens, batch.targets.tolist(), strict=True)
    return [
        {"row": row, "text": decoded_pixels(tokens.tolist()), "label": class_names[label]}
        for row, tokens, label in samples
    ]
