"""Pathfinder (Linsley et al. 2018, https://arxiv.org/abs/1805.08315; Long Range Arena, Tay et al. 2020,
https://arxiv.org/abs/2011.04006): are two dots at the ends of one dashed path, among others?

Every picture has two long paths and some short ones. Its two dots are chosen last, by the toss of a coin: at both ends
of one long path, or at one end of each, equally far from each other to a pixel. So everything else, and the distance of
the dots, is the same in both classes. The exception is the direction in which paths leave the dots: towards each other
rather if they are one path, which alone classifies some 59 of 100 pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from headtohead.data.batches.batch import Batch
from headtohead.data.cache.arrow_columns import numbers
from headtohead.data.cache.cached_source import CachedSource
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataKind, DataSpec, Split, SplitName
from headtohead.data.generated.dashed_paths import END_CLEARANCE, Canvas, between
from headtohead.data.row_formats.class_names import class_shares
from headtohead.data.row_formats.image_rows import (
    ImageRows,
    PixelRows,
    decoded_pixels,
    described_images,
    described_pixels,
    spec_of_pixels,
)
from headtohead.data.splits.sample_splits import SplitSizes
from headtohead.ranges import Amount, BatchSize, Length, Range, Seed

_BRIGHTEST = 255
_DASH_LEVEL = 0.7
"""The level of dashes, where dots have 1."""
_DASH = (0.2, 0.8)
"""The drawn part of a path's step: a pixel and a half, and a gap of one."""
_NUM_POINTS = 9
"""Drops of ink of a dash."""
_DOT_RADIUS = 1.5
_WEIGHT = 0.19
"""The weight of a drop of ink: their distance, so that a line has the level of one."""
_NEAREST_DOTS = 6.0
"""Pixels, from middle to middle."""
_SAME_DISTANCE = 1.0
"""Pixels by which the distance of two dots may differ from that of the two that could be there instead."""
_AT_ONCE = 256
"""Pictures begun together; those without room for all paths are dropped."""
_LONG_TRIES, _SHORT_TRIES = 5, 8
_RAREST = 0.004
"""The least share of the pictures begun that must be completed, for drawing to continue."""
_ENDS = np.array([[0, 1], [2, 3], [0, 2], [0, 3], [1, 2], [1, 3]])
"""Pairs of the ends of two paths: the first two are of one path each."""
_NUM_JOINED = 2


class Pathfinder(CachedSource):
    """Grey images. Lengths are numbers of dashes, two and a half pixels each with the gap between."""

    name: ClassVar[str] = "pathfinder"
    draws_its_rows = True
    kind: ClassVar[DataKind | None] = "images"
    class_names: ClassVar[tuple[str, ...]] = ("apart", "joined")

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        image_size: Annotated[int, Range(16, 16_777_216)] = 32,
        path_length: Annotated[int, Range(3, 16_777_216)] = 14,
        num_distractors: Amount = 5,
        distractor_length: Length = 4,
        batch_size: BatchSize = 64,
        seed: Seed = 0,
    ) -> None:
        super().__init__(batch_size)
        fewest = {"image_size": 16, "path_length": 3, "num_distractors": 0, "distractor_length": 1}
        values = (image_size, path_length, num_distractors, distractor_length)
        for (field, least), value in zip(fewest.items(), values, strict=True):
            if value < least:
                raise DataError(f"data.{field}={value} must be at least {least}.")
        self.sizes = splits.by_name()
        self.image_size, self.path_length = image_size, path_length
        self.num_distractors, self.distractor_length = num_distractors, distractor_length
        self.seed = seed

    def parameters(self) -> Mapping[str, object]:
        return {
            "sizes": dict(self.sizes),
            "image_size": self.image_size,
            "path_length": self.path_length,
            "num_distractors": self.num_distractors,
            "distractor_length": self.distractor_length,
            "seed": self.seed,
        }

    def make(self) -> PreparedContent:
        return PreparedContent({name: self._pictures(name) for name in SPLIT_NAMES})

    def describe_rows(self) -> DataSpec:
        num_classes = len(self.class_names)
        return DataSpec(
            kind="images",
            num_classes=num_classes,
            class_names=self.class_names,
            class_shares=class_shares(numbers(self.content.tables["train"], "label"), num_classes),
            image_shape=(1, self.image_size, self.image_size),
        )

    def open_split(self, name: SplitName) -> Split:
        table, shape = self.content.tables[name], (1, self.image_size, self.image_size)
        return ImageRows(self, name, numbers(table, "image"), numbers(table, "label"), shape, _BRIGHTEST)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the names of classes, since images have no tokens."""
        return " ".join(self.class_names[number] for number in ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return described_images(batch, self.class_names)

    def _pictures(self, name: SplitName) -> dict[str, np.ndarray]:
        """Return the first pictures of one long sequence that depends on the seed and the split alone."""
        generator = np.random.default_rng([self.seed, SPLIT_NAMES.index(name), 3])
        size, completed, begun = self.sizes[name], 0, 0
        images, labels = [], []
        while completed < size:
            paths, short, dots, joined = self._begun(generator)
            begun += _AT_ONCE
            if len(paths):
                images.append(drawn(paths, short, dots, self.image_size))
                labels.append(joined)
                completed += len(paths)
            if completed < _RAREST * begun:
                raise DataError(
                    f"data=pathfinder finds no room for its paths in pictures of data.image_size={self.image_size}: "
                    f"enlarge it, or lower data.path_length={self.path_length} or data.num_distractors="
                    f"{self.num_distractors}."
                )
        return {"image": np.concatenate(images)[:size], "label": np.concatenate(labels)[:size]}

    def _begun(self, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return long paths, short paths, dots and classes of the pictures that have room for everything, alternating
        between the classes."""
        canvas = Canvas(_AT_ONCE, self.image_size, generator)
        first, there = canvas.add(self.path_length, num_tries=_LONG_TRIES, with_ends=True)
        second, fits = canvas.add(self.path_length, num_tries=_LONG_TRIES, with_ends=True)
        dots, alike = _dots(np.stack([first, second], axis=1), generator)
        complete = there & fits & alike & (_distance(second[:, [0, -1]], first) >= END_CLEARANCE)
        canvas.keep(complete)
        paths, dots = np.stack([first, second], axis=1)[complete], dots[complete]
        short = np.zeros((len(paths), self.num_distractors, self.distractor_length + 1, 2))
        room = np.ones(len(paths), dtype=bool)
        for index in range(self.num_distractors):
            short[:, index], fits = canvas.add(self.distractor_length, num_tries=_SHORT_TRIES, with_ends=False)
            room &= fits
        chosen = np.flatnonzero(room)[: room.sum() // 2 * 2]
        first = generator.integers(2, size=len(chosen) // 2)
        joined = np.stack([first, 1 - first], axis=1).reshape(-1).astype(np.uint8)
        return paths[chosen], short[chosen], dots[chosen, joined], joined


class PathfinderPixels(Pathfinder):
    """The same pictures as sequences of their pixels, line by line."""

    kind: ClassVar[DataKind | None] = "labelled_text"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        image_size: Annotated[int, Range(16, 16_777_216)] = 32,
        path_length: Annotated[int, Range(3, 16_777_216)] = 14,
        num_distractors: Amount = 5,
        distractor_length: Length = 4,
        batch_size: BatchSize = 32,
        seed: Seed = 0,
    ) -> None:
        super().__init__(
            splits=splits,
            image_size=image_size,
            path_length=path_length,
            num_distractors=num_distractors,
            distractor_length=distractor_length,
            batch_size=batch_size,
            seed=seed,
        )

    def view_parameters(self) -> Mapping[str, object]:
        return {"view": "pixels"}

    def describe_rows(self) -> DataSpec:
        return spec_of_pixels(super().describe_rows())

    def open_split(self, name: SplitName) -> Split:
        table = self.content.tables[name]
        return PixelRows(self, name, numbers(table, "image"), numbers(table, "label"))

    def decode(self, ids: Sequence[int]) -> str:
        return decoded_pixels(ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return described_pixels(batch, self.class_names)


def _distance(indices: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return the distance from the nearest of some points to a path, picture by picture."""
    path = between(corners, np.array([0.0, 1 / 3, 2 / 3, 1.0])).reshape(len(corners), 1, -1, 2)
    array: np.ndarray = np.linalg.norm(indices[:, :, None] - path, axis=-1).min((1, 2))
    return array


def _dots(paths: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of two dots on different paths and of two on one, and a mask of the pictures where both exist:
    where they are equally far apart."""
    ends = paths[:, :, [0, -1]].reshape(-1, 4, 2)[:, _ENDS]
    distances = np.linalg.norm(ends[:, :, 0] - ends[:, :, 1], axis=-1)
    one, other = distances[:, :_NUM_JOINED, None], distances[:, None, _NUM_JOINED:]
    alike = (np.abs(one - other) <= _SAME_DISTANCE) & (np.minimum(one, other) >= _NEAREST_DOTS)
    alike = alike.reshape(len(paths), -1)
    chosen = np.where(alike, generator.random(alike.shape), -1).argmax(1)
    num_apart, pictures = len(_ENDS) - _NUM_JOINED, np.arange(len(paths))
    apart, joined = ends[pictures, _NUM_JOINED + chosen % num_apart], ends[pictures, chosen // num_apart]
    return np.stack([apart, joined], axis=1), alike.any(1)


def drawn(paths: np.ndarray, short: np.ndarray, dots: np.ndarray, size: int) -> np.ndarray:
    """Draw the pictures as rows of bytes."""
    count, points = len(paths), np.linspace(*_DASH, _NUM_POINTS)
    ink = (
        np.concatenate([between(lines, points).reshape(count, -1, 2) for lines in (paths, short) if lines.size], axis=1)
        - 0.5
    )
    corner = np.floor(ink).astype(np.int64)
    share = ink - corner
    levels = np.zeros(count * size * size)
    for down in (0, 1):
        for right in (0, 1):
            weights = np.abs(1 - down - share[..., 0]) * np.abs(1 - right - share[..., 1]) * _WEIGHT
            cells = (corner[..., 0] + down) * size + corner[..., 1] + right + np.arange(count)[:, None] * size * size
            levels += np.bincount(cells.ravel(), weights.ravel(), minlength=len(levels))
    middles = np.arange(size) + 0.5
    far = np.hypot(middles[:, None] - dots[:, :, 0, None, None], middles - dots[:, :, 1, None, None]).min(1)
    dashes = _DASH_LEVEL * np.minimum(levels, 1).reshape(count, size, size)
    ink_and_dots = np.maximum(dashes, np.clip(_DOT_RADIUS + 0.5 - far, 0, 1))
    array: np.ndarray = np.round(_BRIGHTEST * ink_and_dots).astype(np.uint8).reshape(count, -1)
    return array
