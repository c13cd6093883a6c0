"""Real images of handwritten digits, 8 x 8, which scikit-learn includes (UCI, Alpaydin and Kaynak 1998,
https://doi.org/10.24432/C50P49)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from headtohead.data.batches.batch import Batch
from headtohead.data.cache.arrow_columns import numbers
from headtohead.data.cache.cached_source import CachedSource
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSpec, SplitName
from headtohead.data.row_formats.class_names import class_shares
from headtohead.data.row_formats.image_rows import ImageRows, described_images, stratified
from headtohead.ranges import BatchSize, Rows, Seed

_BRIGHTEST = 16
_SHAPE = (1, 8, 8)
_SHARES: dict[SplitName, float] = {"validation": 0.1, "test": 0.2}


class Digits(CachedSource):
    """1,797 images in stratified splits. `num_train` retains that many of the train split, balanced over classes, while
    validation and test stay the same."""

    name: ClassVar[str] = "digits"
    kind = "images"
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")

    def __init__(
        self, *, num_train: Rows | None = None, batch_size: BatchSize = 64, seed: Seed = 0, drop_shared: bool = False
    ) -> None:
        super().__init__(batch_size)
        self.drop_shared = drop_shared
        self.num_train, self.seed = num_train, seed

    def parameters(self) -> Mapping[str, object]:
        return {"num_train": self.num_train, "seed": self.seed}

    def make(self) -> PreparedContent:
        from sklearn.datasets import load_digits

        loaded = load_digits()
        images, labels = loaded.data.astype(np.uint8), loaded.target.astype(np.uint8)
        splits = stratified(labels, _SHARES, np.random.default_rng(self.seed))
        splits["train"] = self._first_rows(splits["train"], labels)
        return PreparedContent(
            {name: {"image": images[splits[name]], "label": labels[splits[name]]} for name in SPLIT_NAMES}
        )

    def describe_rows(self) -> DataSpec:
        num_classes = len(self.class_names)
        return DataSpec(
            kind="images",
            num_classes=num_classes,
            class_names=self.class_names,
            class_shares=class_shares(numbers(self.content.tables["train"], "label"), num_classes),
            image_shape=_SHAPE,
        )

    def open_split(self, name: SplitName) -> ImageRows:
        table = self.content.tables[name]
        return ImageRows(self, name, numbers(table, "image"), numbers(table, "label"), _SHAPE, _BRIGHTEST)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the names of classes, since images have no tokens."""
        return " ".join(self.class_names[number] for number in ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return described_images(batch, self.class_names)

    def _first_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the first rows of every class in turn; the rows come shuffled."""
        if self.num_train is None:
            return rows
        if not len(self.class_names) <= self.num_train <= len(rows):
            raise DataError(
                f"data.num_train={self.num_train} must be from {len(self.class_names)}, one of each class, to "
                f"{len(rows)}, the whole train split; null means all."
            )
        index_in_class = np.empty(len(rows), dtype=np.int64)
        for label in range(len(self.class_names)):
            own = np.flatnonzero(labels[rows] == label)
            index_in_class[own] = np.arange(len(own))
        return rows[np.argsort(index_in_class, kind="stable")[: self.num_train]]
