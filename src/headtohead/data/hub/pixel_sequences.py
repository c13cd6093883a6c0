"""Images as sequences of their pixels, line by line: long rows of tokens whose classes hang on places far apart (Long
Range Arena, Tay et al. 2020, https://arxiv.org/abs/2011.04006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from headtohead.data.batch import Batch
from headtohead.data.contracts import DataKind, DataSpec, Split, SplitName
from headtohead.data.decoding import Colours
from headtohead.data.hub.images import HubImages
from headtohead.data.rows import as_tensor
from headtohead.data.source import CachedSplit
from headtohead.data.storage import numbers
from headtohead.data.tokenizers import SPECIAL_TOKENS

_NUM_LEVELS = 256
_FIRST_ID = len(SPECIAL_TOKENS)


class PixelSequences(HubImages):
    """A token is the level of one pixel, from 0 to 255; where there are colours, all of one before the next."""

    kind: ClassVar[DataKind | None] = "labelled_text"

    def __init__(
        self,
        *,
        name: str | None = None,
        subset: str | None = None,
        revision: str | None = None,
        folder: str | None = None,
        train_split: str | None = None,
        validation_split: str | None = None,
        test_split: str | None = None,
        validation_share: float = 0.1,
        test_share: float = 0.1,
        image_column: str | None = None,
        label_column: str | None = None,
        image_size: int = 32,
        colours: Colours = "grey",
        batch_size: int = 32,
        seed: int = 0,
        about: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            name=name,
            subset=subset,
            revision=revision,
            folder=folder,
            train_split=train_split,
            validation_split=validation_split,
            test_split=test_split,
            validation_share=validation_share,
            test_share=test_share,
            image_column=image_column,
            label_column=label_column,
            image_size=image_size,
            colours=colours,
            batch_size=batch_size,
            seed=seed,
            about=about,
        )

    def describe_rows(self) -> DataSpec:
        images = super().describe_rows()
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

    def open_split(self, name: SplitName) -> Split:  # type: ignore[override]
        table = self.content.tables[self.content.facts["splits"][name]]
        places = numbers(self.content.tables[name], "place")
        return PixelRows(self, name, numbers(table, "image"), numbers(table, "label"), places)

    def decode(self, ids: Sequence[int]) -> str:
        """Levels with spaces between."""
        return " ".join(SPECIAL_TOKENS[token] if token < _FIRST_ID else str(token - _FIRST_ID) for token in ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        assert batch.tokens is not None and batch.targets is not None
        samples = zip(batch.rows.tolist(), batch.tokens, batch.targets.tolist(), strict=True)
        return [
            {"row": row, "text": self.decode(tokens.tolist()), "label": self.class_names[label]}
            for row, tokens, label in samples
        ]


class PixelRows(CachedSplit):
    """All as long as each other."""

    def __init__(
        self, source: PixelSequences, name: SplitName, images: np.ndarray, labels: np.ndarray, places: np.ndarray
    ) -> None:
        super().__init__(source, name)
        self._images, self._labels, self._places = images, labels, places

    def __len__(self) -> int:
        return len(self._places)

    def batch(self, rows: np.ndarray) -> Batch:
        places = self._places[rows]
        levels = self._images[places].astype(np.int64)
        return Batch(
            rows=as_tensor(rows), tokens=as_tensor(_FIRST_ID + levels), targets=as_tensor(self._labels[places])
        )
