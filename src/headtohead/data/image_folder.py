"""Images of one's own in folders named by their class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared
from headtohead.data.classes import class_shares
from headtohead.data.contracts import SPLIT_NAMES, DataError, DataSpec, SplitName
from headtohead.data.decoding import Colours, check_picture_fields, pixels_of, shape_of
from headtohead.data.files import check_shares, content_digest, existing, split_of
from headtohead.data.images import ImageRows, described_images, stratified
from headtohead.data.source import CachedSource
from headtohead.data.storage import Table, numbers, smallest_integer
from headtohead.ranges import BatchSize, Length, Probability, Seed

_BRIGHTEST = 255
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


class ImageFolder(CachedSource):
    """`path` holds a folder per class, or folders train, validation and test that do. A split without a folder of its
    own gets its share of every class of the train images. Images are scaled and cut in the middle to a square, and
    their values are from -1 to 1."""

    name: ClassVar[str] = "image_folder"
    kind = "images"

    def __init__(
        self,
        *,
        path: str | None = None,
        image_size: Length = 32,
        colours: Colours = "rgb",
        validation_share: Probability = 0.1,
        test_share: Probability = 0.1,
        batch_size: BatchSize = 64,
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(batch_size)
        self.drop_shared = drop_shared
        check_picture_fields(image_size, colours)
        self.path, self.image_size, self.colours, self.seed = path, image_size, colours, seed
        self.shares = check_shares(validation_share, test_share)

    @cached_property
    def files(self) -> dict[SplitName, dict[str, list[Path]]]:
        """Of each split, the files of each class."""
        root = existing(self.path, "data.path", "a folder with a folder of images per class")
        if not root.is_dir():
            raise DataError(f"data.path={root} is a file: give a folder with a folder of images per class.")
        folders = sorted(folder for folder in root.iterdir() if folder.is_dir())
        by_split = {split: folder for folder in folders if (split := split_of(folder, root)) is not None}
        if "train" not in by_split:
            by_split = {"train": root}
        files = {split: _by_class(folder) for split, folder in by_split.items()}
        if len(files["train"]) < 2:
            raise DataError(
                f"data.path={root} must hold a folder of images ({', '.join(SUFFIXES)}) for each of at least two "
                f"classes, and {', '.join(files['train']) or 'none'} is there: arrange it so, or correct the path."
            )
        for split, found in files.items():
            for unknown in sorted(found.keys() - files["train"].keys()):
                raise DataError(
                    f"{by_split[split] / unknown} is a class that the train images do not have "
                    f"({', '.join(files['train'])}): correct its name, or give train images of it."
                )
            if not found:
                raise DataError(f"{by_split[split]} has no images in folders named by their class: give some.")
        return files

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.content.facts["class_names"])

    def parameters(self) -> Mapping[str, Any]:
        digests = {
            split: {name: [content_digest(file) for file in files] for name, files in by_class.items()}
            for split, by_class in self.files.items()
        }
        chosen = {"image_size": self.image_size, "colours": self.colours, "seed": self.seed}
        return {**chosen, "files": digests, "shares": self.shares}

    def make(self) -> Prepared:
        classes = tuple(self.files["train"])
        tables = {split: self._table(by_class, classes) for split, by_class in self.files.items()}
        missing = {split: share for split, share in self.shares.items() if split not in tables}
        if missing:
            whole = tables["train"]
            labels = numbers(whole, "label")
            for split, rows in stratified(labels, missing, np.random.default_rng(self.seed)).items():
                tables[split] = {"image": numbers(whole, "image")[rows], "label": labels[rows]}
        for split in SPLIT_NAMES:
            if not len(tables[split]["label"]):
                raise DataError(
                    f"data.path={self.path} leaves the {split} split empty: give more images, or larger "
                    f"data.validation_share and data.test_share, or a folder of its own."
                )
        return Prepared({str(split): tables[split] for split in SPLIT_NAMES}, {"class_names": classes})

    def _table(self, by_class: Mapping[str, Sequence[Path]], classes: Sequence[str]) -> Table:
        files = [(file, classes.index(name)) for name, found in by_class.items() for file in found]
        images = np.stack([self._pixels(file) for file, _ in files])
        return {"image": images, "label": np.array([label for _, label in files], dtype=smallest_integer(len(classes)))}

    def _pixels(self, file: Path) -> np.ndarray:
        return pixels_of(file, self.image_size, self.colours, str(file))

    @property
    def _shape(self) -> tuple[int, int, int]:
        return shape_of(self.image_size, self.colours)

    def describe_rows(self) -> DataSpec:
        names = self.class_names
        return DataSpec(
            kind="images",
            num_classes=len(names),
            class_names=names,
            class_shares=class_shares(numbers(self.content.tables["train"], "label"), len(names)),
            image_shape=self._shape,
        )

    def open_split(self, name: SplitName) -> ImageRows:
        table = self.content.tables[name]
        return ImageRows(self, name, numbers(table, "image"), numbers(table, "label"), self._shape, _BRIGHTEST)

    def decode(self, ids: Sequence[int]) -> str:
        """Images have no tokens: the names of classes."""
        return " ".join(self.class_names[number] for number in ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return described_images(batch, self.class_names)


def _by_class(folder: Path) -> dict[str, list[Path]]:
    """The images below each folder, however deep; folders without any are no classes."""
    found = {
        each.name: sorted(file for file in each.rglob("*") if file.is_file() and file.suffix.lower() in SUFFIXES)
        for each in sorted(folder.iterdir())
        if each.is_dir()
    }
    return {name: files for name, files in found.items() if files}
