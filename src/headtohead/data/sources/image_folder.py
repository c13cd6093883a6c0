"""The user's images: in folders named by their class, or all of one kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headtohead.data.batches.batch import Batch
from headtohead.data.batches.image_decoding import PictureSize, pixels_of, shape_of
from headtohead.data.cache.arrow_columns import Table, numbers, smallest_integer
from headtohead.data.cache.cached_source import CachedSource
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSpec, SplitName
from headtohead.data.row_formats.class_names import class_shares
from headtohead.data.row_formats.image_rows import ImageRows, described_images, stratified
from headtohead.data.sources.local_files import HeldOutShares, content_digest, existing_path, split_of
from headtohead.ranges import BatchSize, Seed

_BRIGHTEST = 255
_NAMED = 5
"""Images that one message names."""
NO_CLASS = "image"
"""The name of what images are where no folder says it."""
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


class ImageFolder(CachedSource):
    """`path` holds a folder per class, or images alone where nothing is to be told apart; or folders train, validation
    and test that do. A split without a folder of its own gets its share of every class of the train images. Images are
    scaled and cut in the middle to a square, and their values are from -1 to 1."""

    name: ClassVar[str] = "image_folder"
    kind = "images"

    def __init__(
        self,
        *,
        path: str | None = None,
        pictures: PictureSize = PictureSize(),
        held_out: HeldOutShares = HeldOutShares(0.1, 0.1),
        batch_size: BatchSize = 64,
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(batch_size)
        self.drop_shared = drop_shared
        pictures.check()
        self.path, self.image_size, self.colours, self.seed = path, pictures.image_size, pictures.colours, seed
        self.shares = held_out.shares()

    @cached_property
    def files(self) -> dict[SplitName, dict[str, list[Path]]]:
        """Return, for each split, the files of each class."""
        root = existing_path(self.path, "data.path", "a folder with a folder of images per class")
        if not root.is_dir():
            raise DataError(f"data.path={root} is a file: give a folder with a folder of images per class.")
        folders = sorted(folder for folder in root.iterdir() if folder.is_dir())
        by_split = {split: folder for folder in folders if (split := split_of(folder, root)) is not None}
        if "train" not in by_split:
            by_split = {"train": root}
        files = {split: _by_class(folder) for split, folder in by_split.items()}
        if not files["train"]:
            raise DataError(
                f"data.path={root} must hold a folder of images ({', '.join(SUFFIXES)}) for each class, or images of "
                "no class, and none is there: arrange it so, or correct the path."
            )
        for split, by_class in files.items():
            for unknown in sorted(by_class.keys() - files["train"].keys()):
                raise DataError(
                    f"{by_split[split] / unknown} is a class that the train images do not have "
                    f"({', '.join(files['train'])}): correct its name, or give train images of it."
                )
            if not by_class:
                raise DataError(f"{by_split[split]} has no images: give some, in folders named by their class.")
        return files

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.content.facts["class_names"])

    def parameters(self) -> Mapping[str, object]:
        digests = {
            split: {name: [content_digest(file) for file in files] for name, files in by_class.items()}
            for split, by_class in self.files.items()
        }
        chosen = {"image_size": self.image_size, "colours": self.colours, "seed": self.seed}
        return {**chosen, "files": digests, "shares": self.shares}

    def make(self) -> PreparedContent:
        classes = tuple(self.files["train"])
        pixels = self._all_pixels()
        tables = {split: _table(by_class, classes, pixels) for split, by_class in self.files.items()}
        missing = {split: share for split, share in self.shares.items() if split not in tables}
        if missing:
            train_table = tables["train"]
            labels = numbers(train_table, "label")
            for split, rows in stratified(labels, missing, np.random.default_rng(self.seed)).items():
                tables[split] = {"image": numbers(train_table, "image")[rows], "label": labels[rows]}
        for split in SPLIT_NAMES:
            if not len(tables[split]["label"]):
                raise DataError(
                    f"data.path={self.path} leaves the {split} split empty: give more images, or larger "
                    f"data.validation_share and data.test_share, or a folder of its own."
                )
        return PreparedContent({str(split): tables[split] for split in SPLIT_NAMES}, {"class_names": classes})

    def _all_pixels(self) -> Mapping[Path, np.ndarray]:
        """Return each image as bytes; raise DataError that names those which cannot be read."""
        files = self.all_files()
        pixels, refusal = self.decoded(files)
        if refusal is not None:
            raise DataError(refusal)
        return pixels

    def all_files(self) -> list[Path]:
        """Return the files of all splits and classes."""
        return [file for by_class in self.files.values() for paths in by_class.values() for file in paths]

    def decoded(self, files: Sequence[Path]) -> tuple[Mapping[Path, np.ndarray], str | None]:
        """Return each image that can be read as bytes, and the sentence about those that cannot."""
        pixels, errors = {}, {}
        for file in files:
            try:
                pixels[file] = pixels_of(file, self.image_size, self.colours, str(file))
            except DataError as error:
                errors[file] = str(error)
        return pixels, _unreadable_images(errors, len(files)) if errors else None

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
        """Return the names of classes, since images have no tokens."""
        return " ".join(self.class_names[number] for number in ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return described_images(batch, self.class_names)


def _unreadable_images(errors: Mapping[Path, str], total: int) -> str:
    """Return the sentence of one image as it is, and one that names the first of several."""
    if len(errors) == 1:
        return next(iter(errors.values()))
    named = ", ".join(map(str, list(errors)[:_NAMED]))
    more = f" and {len(errors) - _NAMED:,} more" if len(errors) > _NAMED else ""
    return f"{len(errors):,} of {total:,} images cannot be read, {named}{more}: replace them, or remove them."


def _table(by_class: Mapping[str, Sequence[Path]], classes: Sequence[str], pixels: Mapping[Path, np.ndarray]) -> Table:
    files = [(file, classes.index(name)) for name, paths in by_class.items() for file in paths]
    images = np.stack([pixels[file] for file, _ in files])
    return {"image": images, "label": np.array([label for _, label in files], dtype=smallest_integer(len(classes)))}


def _by_class(folder: Path) -> dict[str, list[Path]]:
    """Return the images below each folder, however deep; folders without any are not classes. Where no folder has any,
    the images beside them are of one class."""
    folders = [each for each in sorted(folder.iterdir()) if each.is_dir() and not each.name.startswith((".", "__"))]
    classes = {each.name: files for each in folders if (files := _images(each.rglob("*")))}
    loose = _images(folder.iterdir())
    if loose and classes:
        images = "1 image" if len(loose) == 1 else f"{len(loose)} images"
        raise DataError(
            f"{folder} holds {images} beside the folders {', '.join(classes)}, which are classes: move them into one, "
            "or all images out of the folders."
        )
    return classes or ({NO_CLASS: loose} if loose else {})


def _images(files: Iterable[Path]) -> list[Path]:
    return sorted(file for file in files if file.is_file() and file.suffix.lower() in SUFFIXES)
