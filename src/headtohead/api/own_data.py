"""Data from Python: what a file or folder holds, looked at before anything is trained; and what a notebook holds,
written once to a file named by its content, which every run and worker reads."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.api.error_translation import python_errors
from headtohead.api.result import Result, upgraded
from headtohead.config.compose.overrides import value_in_override
from headtohead.data.cache.paths import cache_root
from headtohead.data.sources.local_files import SPLIT_OF_NAME, content_digest
from headtohead.diagnostics.data_description import describe
from headtohead.diagnostics.described_data import DataDescription, ReadingOptions, reading_options
from headtohead.errors import UsageError
from headtohead.files.atomic_write import move_into_place, replace_by_name

if TYPE_CHECKING:
    from datasets import Dataset

_log = logging.getLogger(__name__)
_DIGITS = 16
_IMAGES = "train-00000-of-00001.parquet"
_MOST_COLOURS = 255.0
_DARK = 64
"""Whole numbers that all are smaller are rather on a scale of their own, such as 0 to 16, than to 255."""
_FIRST_LETTER = 0x4E00
"""Token ids are written as letters from here on, one each, which data.tokenizer=char reads back as they are."""
_MOST_TOKENS = 0x5000


def overrides_for(data: object, reading: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the overrides by which runs read a frame, a `datasets.Dataset` or a mapping of splits to those, a pair of
    tensors (images or tokens, and labels), one tensor of tokens, or a file, which these overrides may say how to
    read."""
    if isinstance(data, str | Path):
        return tuple(describe(data, reading_options(reading)).overrides)
    if isinstance(data, Sequence) and all(isinstance(word, str) for word in data):
        return tuple(data)
    if isinstance(data, tuple) and len(data) == 2:
        first, labels = _array(data[0]), _class_labels(_array(data[1]))
        if len(first) != len(labels):
            raise UsageError(f"data has {len(first)} rows and {len(labels)} labels: give one label for each row")
        return _of_images(first, labels) if first.ndim in (3, 4) else _of_tokens(first, labels)
    if isinstance(data, Mapping) and data and all(_writer_of(split) is not None for split in data.values()):
        return _of_splits(data)
    if _writer_of(data) is not None:
        return _of_table(data)
    if hasattr(data, "shape") and not isinstance(data, Mapping):
        return _of_tokens(_array(data), None)
    raise UsageError(
        f"data is {type(data).__name__}: give a file's path, a pandas or polars frame, a datasets.Dataset, a mapping "
        "of train, validation and test to those, tensors (rows, labels), or overrides such as ['data=csv', "
        "'data.path=reviews.csv']"
    )


def _array(values: Any) -> np.ndarray:
    """Return values as an array; of a tensor, wherever it lies and whatever its precision."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().to_dense()
        values = values.float() if values.is_floating_point() else values
    return np.asarray(values)


def _class_labels(labels: np.ndarray) -> np.ndarray:
    """Return one class for each row; numbers with a point are classes where they are whole."""
    if labels.ndim != 1:
        raise UsageError(f"data has labels of shape {labels.shape}: give one class for each row")
    if labels.dtype.kind == "O" and not all(isinstance(label, str | int) for label in labels.tolist()):
        raise UsageError("data has labels that are neither words nor whole numbers: give one class for each row")
    if labels.dtype.kind != "f":
        return labels
    if not (np.isfinite(labels) & (labels == labels.round())).all():
        raise UsageError("data has labels with fractions: give classes, or a frame with a column of scores")
    return labels.astype(np.int64)


def _writer_of(data: object) -> Callable[[str], object] | None:
    """Return what writes a frame or a set as Parquet."""
    return next((getattr(data, name) for name in ("to_parquet", "write_parquet") if hasattr(data, name)), None)


def _of_table(data: object) -> tuple[str, ...]:
    """Frames of pandas and polars and sets of `datasets` all write Parquet, which is what runs read."""
    writer = _writer_of(data)
    assert writer is not None, "whoever calls has asked"
    with TemporaryDirectory(dir=_folder()) as unfinished:
        written = Path(unfinished, "rows.parquet")
        writer(str(written))
        with written.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()[:_DIGITS]
        file = _folder() / f"{digest}.parquet"
        move_into_place(written, file)
    return tuple(describe(file).overrides)


def _of_splits(data: Mapping[str, object]) -> tuple[str, ...]:
    """Write a `datasets.DatasetDict`, or a mapping of frames, as a folder with a file for each split."""
    named = {name: SPLIT_OF_NAME.get(name) for name in data}
    if "train" not in named.values() or None in named.values() or len(set(named.values())) < len(named):
        raise UsageError(
            f"data has the splits {', '.join(map(str, named))}: give train, and validation and test or not"
        )
    content = hashlib.sha256()
    with TemporaryDirectory(dir=_folder()) as unfinished:
        for name, split in named.items():
            written = Path(unfinished, f"{split}.parquet")
            writer = _writer_of(data[name])
            assert writer is not None, "whoever calls has asked"
            writer(str(written))
            content.update(f"{split} {content_digest(written)}".encode())
        folder = _folder() / f"splits-{content.hexdigest()[:_DIGITS]}"
        folder.mkdir(exist_ok=True)
        for written in Path(unfinished).iterdir():
            move_into_place(written, folder / written.name)
    return tuple(describe(folder).overrides)


def _folder() -> Path:
    folder = cache_root() / "own_data"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _of_images(images: np.ndarray, labels: np.ndarray) -> tuple[str, ...]:
    """Write images [N, H, W], [N, 1 or 3, H, W] or [N, H, W, 1 or 3] as a set with a column of each; numbers with a
    point are taken as shares of full brightness, and so are those that are 0 or 1."""
    from datasets import ClassLabel, Dataset, Features, Image

    pixels = _pixels(images)
    names = [str(name) for name in sorted(set(labels.tolist()))]
    content = repr((pixels.shape, labels.tolist())).encode() + pixels.tobytes()
    digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
    folder = _folder() / f"images-{digest}"
    if not (folder / _IMAGES).is_file():
        folder.mkdir(exist_ok=True)
        rows = {"image": _pictures(pixels), "label": [names.index(str(label)) for label in labels.tolist()]}
        made: Dataset = Dataset.from_dict(rows, features=Features({"image": Image(), "label": ClassLabel(names=names)}))
        replace_by_name(folder / _IMAGES, lambda unfinished: made.to_parquet(str(unfinished)))
    colours = "grey" if pixels.ndim == 3 else "rgb"
    return (
        "data=hub_images", f"data.folder={value_in_override(str(folder))}",
        f"data.image_size={pixels.shape[1]}", f"data.colours={colours}",
        "task=image_classification", "model=vision_transformer",
    )  # fmt: skip


def _pictures(pixels: np.ndarray) -> list[object]:
    from PIL import Image

    return [Image.fromarray(picture) for picture in pixels]


def _pixels(images: np.ndarray) -> np.ndarray:
    """Return whole numbers from 0 to 255, as [N, H, W] or [N, H, W, 3]; of black and white, 0 and 1, too."""
    if images.ndim == 4 and images.shape[1] in (1, 3):
        images = np.moveaxis(images, 1, -1)
    if images.ndim == 4 and images.shape[-1] == 1:
        images = images[..., 0]
    if (images.ndim == 4 and images.shape[-1] != 3) or images.shape[1] != images.shape[2] or not images.size:
        raise UsageError(
            f"data has images of shape {images.shape[1:]}: give square ones, of one channel or of three, and at least "
            "one"
        )
    are_whole = images.dtype.kind in "iu"
    brightest = _MOST_COLOURS if are_whole else 1.0
    if not (images.min() >= 0 and images.max() <= brightest):  # nor is it where there are NaNs
        raise UsageError(
            f"data has images with numbers from {images.min():.4g} to {images.max():.4g}: give whole numbers from 0 to "
            "255, or shares of full brightness from 0 to 1"
        )
    if are_whole and images.max() > 1:
        if images.max() < _DARK:
            _log.warning(
                "data has images in whole numbers to %d of 255, which are dark: divide them by their brightest value "
                "where that is full brightness",
                images.max(),
            )
        return images.astype(np.uint8)
    result: np.ndarray = (images * _MOST_COLOURS).round().astype(np.uint8)
    return result


def _of_tokens(tokens: np.ndarray, labels: np.ndarray | None) -> tuple[str, ...]:
    """Write rows of token ids, with a label each or none, as texts of one letter for each token."""
    from pandas import DataFrame

    if tokens.ndim != 2 or tokens.dtype.kind not in "iu":
        raise UsageError(
            f"data is an array of {tokens.dtype} of shape {tokens.shape}: give token ids [rows, length], images "
            "[rows, height, width] with labels, or a frame"
        )
    if not tokens.size:
        raise UsageError(f"data has token ids of shape {tokens.shape}: give at least one row of at least one token")
    if tokens.min() < 0 or tokens.max() >= _MOST_TOKENS:
        raise UsageError(f"data has token ids from {tokens.min()} to {tokens.max()}: give 0 to {_MOST_TOKENS - 1}")
    columns: Mapping[str, list[object]] = {
        "text": ["".join(chr(_FIRST_LETTER + token) for token in row) for row in tokens.tolist()],
        **({} if labels is None else {"label": [str(label) for label in labels.tolist()]}),
    }
    corpus = () if labels is not None else (f"data.context_length={tokens.shape[1]}", "data.packing=none")
    return (*_of_table(DataFrame(columns)), "data.tokenizer=char", *corpus)


class DescribedData(Result, DataDescription):
    """The description of what lies at a path, a row for each column."""

    @property
    def title(self) -> str:
        chance = (
            f", most frequent class {self.chance:.3f}" if self.chance is not None and self.task != "tagging" else ""
        )
        return f"{self.path}: {self.task}, {self._sizes}{chance}"

    @property
    def _sizes(self) -> str:
        """Return how much there is of each split; of one alone, from which the others are drawn, without its name."""
        total = sum(self.num_rows.values())
        unit = "image" if self.kind == "images" else "document" if self.choice == "text" else "row"
        splits = "" if set(self.num_rows) == {"train"} else f" ({_by_split(self.num_rows)})"
        return f"{total:,} {unit}{'' if total == 1 else 's'}{splits}"

    @property
    def sentences(self) -> Sequence[str]:
        return [*self.remarks, self.command]

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [vars(column) for column in self.columns]


def _by_split(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {split}" for split, number in sizes.items())


@python_errors
def describe_data(
    path: str | Path,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    quoted: bool | None = None,
    column_names: Sequence[str] | None = None,
) -> DescribedData:
    """Say what a file or folder holds: `.task`, `.columns`, `.classes`, and `.overrides`, by which a run reads it.

    The arguments say how a text or a table is read, where the file itself does not: `encoding="latin-1"`,
    `delimiter=";"`, whether fields are `quoted`, and the names of columns that the first line does not name.
    """
    return upgraded(DescribedData, describe(path, ReadingOptions(encoding, delimiter, quoted, column_names)))
