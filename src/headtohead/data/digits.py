"""Real images of handwritten digits, 8 x 8, which scikit-learn brings along (UCI, Alpaydin and Kaynak 1998,
https://doi.org/10.24432/C50P49)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared
from headtohead.data.contracts import SPLIT_NAMES, DataError, DataSpec, SplitName
from headtohead.data.rows import as_tensor
from headtohead.data.source import CachedSource, CachedSplit

_BRIGHTEST = 16
_SHARES: dict[SplitName, float] = {"validation": 0.1, "test": 0.2}


class Digits(CachedSource):
    """1,797 images, split so that every class has its share everywhere. `num_train` keeps that many of the train
    split, classes alike, while validation and test stay the same."""

    name: ClassVar[str] = "digits"
    kind = "images"
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")

    def __init__(self, *, num_train: int | None = None, batch_size: int = 64, seed: int = 0) -> None:
        super().__init__(batch_size)
        self.num_train, self.seed = num_train, seed

    def parameters(self) -> Mapping[str, Any]:
        return {"num_train": self.num_train, "seed": self.seed}

    def make(self) -> Prepared:
        from sklearn.datasets import load_digits

        loaded = load_digits()
        images, labels = loaded.data.astype(np.uint8), loaded.target.astype(np.uint8)
        splits = stratified(labels, _SHARES, np.random.default_rng(self.seed))
        splits["train"] = self._kept(splits["train"], labels)
        return Prepared({name: {"image": images[splits[name]], "label": labels[splits[name]]} for name in SPLIT_NAMES})

    def describe_rows(self) -> DataSpec:
        return DataSpec(
            kind="images", num_classes=len(self.class_names), class_names=self.class_names, image_shape=(1, 8, 8)
        )

    def open_split(self, name: SplitName) -> ImageRows:
        table = self.content.tables[name]
        images, labels = table["image"], table["label"]
        assert isinstance(images, np.ndarray) and isinstance(labels, np.ndarray)
        return ImageRows(self, name, images, labels)

    def decode(self, ids: Sequence[int]) -> str:
        """Images have no tokens: the names of classes."""
        return " ".join(self.class_names[number] for number in ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        assert batch.images is not None and batch.targets is not None
        samples = zip(batch.rows, batch.images, batch.targets, strict=True)
        return [
            {"row": int(row), "image": image.numpy(), "label": self.class_names[int(label)]}
            for row, image, label in samples
        ]

    def _kept(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The first rows of every class in turn; the rows come shuffled."""
        if self.num_train is None:
            return rows
        if not len(self.class_names) <= self.num_train <= len(rows):
            raise DataError(
                f"data.num_train={self.num_train} must be from {len(self.class_names)}, one of each class, to "
                f"{len(rows)}, the whole train split; null means all."
            )
        place_in_class = np.empty(len(rows), dtype=np.int64)
        for label in range(len(self.class_names)):
            own = np.flatnonzero(labels[rows] == label)
            place_in_class[own] = np.arange(len(own))
        return rows[np.argsort(place_in_class, kind="stable")[: self.num_train]]


class ImageRows(CachedSplit):
    """Grey images from -1 to 1, with labels."""

    def __init__(self, source: CachedSource, name: SplitName, images: np.ndarray, labels: np.ndarray) -> None:
        super().__init__(source, name)
        self._images, self._labels = images, labels

    def __len__(self) -> int:
        return len(self._images)

    def batch(self, rows: np.ndarray) -> Batch:
        pixels = self._images[rows].astype(np.float32).reshape(-1, 1, 8, 8)
        return Batch(
            rows=as_tensor(rows),
            images=torch.from_numpy(pixels * (2 / _BRIGHTEST) - 1),
            targets=as_tensor(self._labels[rows]),
        )


def stratified(
    labels: np.ndarray, shares: Mapping[SplitName, float], generator: np.random.Generator
) -> dict[SplitName, np.ndarray]:
    """Shuffled row numbers of each split, in which every class has its share; the train split takes what is left."""
    parts: dict[SplitName, list[np.ndarray]] = {name: [] for name in SPLIT_NAMES}
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        start = 0
        for name, share in shares.items():
            stop = start + round(share * len(rows))
            parts[name].append(rows[start:stop])
            start = stop
        parts["train"].append(rows[start:])
    return {name: generator.permutation(np.concatenate(pieces)) for name, pieces in parts.items()}
