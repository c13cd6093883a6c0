"""Published sets of pictures (https://huggingface.co/docs/datasets/image_dataset), decoded once and stored as bytes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headtohead.data.batches.batch import Batch
from headtohead.data.batches.image_decoding import PictureSize, all_pixels, shape_of
from headtohead.data.cache.arrow_columns import Table, numbers, smallest_integer
from headtohead.data.cache.cached_source import CachedSource
from headtohead.data.cache.parallel_map import progress_bar
from headtohead.data.cache.paths import cache_root
from headtohead.data.cache.prepared_content import PreparedContent, disk_full_message
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataKind, DataSpec, SplitName
from headtohead.data.row_formats.class_names import Classes, class_shares
from headtohead.data.row_formats.image_rows import ImageRows, described_images, mean_and_deviation, stratified
from headtohead.data.sources.hub.dataset_location import DatasetLocation, locate_dataset
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.downloads import fetch_file
from headtohead.data.sources.hub.image_columns import (
    ChosenImageColumns,
    PictureColumns,
    choose_image_columns,
    classes_of,
    num_rows_of,
    rows_of,
)
from headtohead.data.sources.hub.split_choice import PublishedSplits, chosen_splits, hidden, is_unlabelled
from headtohead.data.sources.local_files import content_digest
from headtohead.ranges import BatchSize, Seed

_BRIGHTEST = 255
_COPIES = 2
"""The number of copies of the pixels on disk, while the cache is written."""


class HubImages(CachedSource):
    """Images are scaled and cropped in the middle to a square; the model's input has, over the train split, mean 0 and
    deviation 1 in each channel. Rows whose label is withheld are left out."""

    name: ClassVar[str] = "hub_images"
    kind: ClassVar[DataKind | None] = "images"

    def __init__(
        self,
        *,
        published: DatasetReference = DatasetReference(),
        splits: PublishedSplits = PublishedSplits(0.1, 0.1),
        columns: PictureColumns = PictureColumns(),
        pictures: PictureSize = PictureSize(),
        batch_size: BatchSize = 64,
        seed: Seed = 0,
        drop_shared: bool = False,
        about: dict[str, str] | None = None,
    ) -> None:
        super().__init__(batch_size)
        pictures.check()
        self.published, self.requested_splits, self.shares = published, splits.by_split(), splits.shares()
        self.requested_columns, self.image_size, self.colours = columns, pictures.image_size, pictures.colours
        self.seed, self.drop_shared, self.about = seed, drop_shared, about

    @cached_property
    def located(self) -> DatasetLocation:
        return locate_dataset(self.published)

    @cached_property
    def published_splits(self) -> dict[SplitName, str | None]:
        """Return the published split of each of ours; None where it is a share of the train rows."""
        return chosen_splits(self.published, self.requested_splits, self.located.splits)

    @cached_property
    def files(self) -> dict[str, list[Path]]:
        """Return the files of each published split that is in use."""
        return {name: fetch_file(self.located, name) for name in self.published_splits.values() if name is not None}

    def parameters(self) -> Mapping[str, object]:
        """Return what determines the content. A commit never changes; in a folder, the files themselves count, and the
        names of its card."""
        if self.published.folder is None:
            origin: Mapping[str, object] = self.located.provenance()
        else:
            origin = {name: [content_digest(file) for file in files] for name, files in self.files.items()}
            origin = {**origin, "names": self.located.all_class_names()}
        return {
            "origin": {name: value for name, value in origin.items() if name != "licence"},
            "splits": self.published_splits,
            "columns": [self.requested_columns.image_column, self.requested_columns.label_column],
            "image_size": self.image_size,
            "colours": self.colours,
            "shares": self.shares,
            "seed": self.seed,
        }

    def provenance(self) -> Mapping[str, Any]:
        return self.located.provenance()

    def pinned_fields(self) -> Mapping[str, object]:
        return self.located.pinned_fields()

    def view_parameters(self) -> Mapping[str, object]:
        """Return the origin: rows of another set or revision are other rows, though they may look alike."""
        origin = {name: value for name, value in self.located.provenance().items() if name != "licence"}
        return {"origin": origin} if origin else {}

    def make(self) -> PreparedContent:
        train = str(self.published_splits["train"])
        chosen = choose_image_columns(
            self.requested_columns, self.files[train][0], self.located.features, str(self.published)
        )
        total = sum(num_rows_of(file) for files in self.files.values() for file in files)
        self._check_room(total)
        pictures: dict[str, tuple[np.ndarray, list[Any]]] = {}
        with progress_bar(f"decoding {self.published.name or self.published}", total) as report:
            for name in sorted(self.files, key=lambda name: name != train):
                pictures[name] = self._decoded(name, chosen, report)
        classes = classes_of(chosen, pictures[train][1])
        tables: dict[str, Table] = {
            _table_of(name): {"image": images, "label": self._numbered(name, labels, classes)}
            for name, (images, labels) in pictures.items()
        }
        indices = self._shared_out({name: numbers(tables[_table_of(name)], "label") for name in self.files})
        images = numbers(tables[_table_of(train)], "image")
        mean, deviation = mean_and_deviation(images, indices["train"], self._shape)
        facts = {"class_names": classes.names, "mean": mean, "deviation": deviation, "splits": self._tables_of_splits}
        return PreparedContent({**tables, **{str(name): {"place": indices[name]} for name in SPLIT_NAMES}}, facts)

    def describe_rows(self) -> DataSpec:
        names, facts = self.class_names, self.content.facts
        indices = numbers(self.content.tables["train"], "place")
        labels = numbers(self.content.tables[facts["splits"]["train"]], "label")[indices]
        return DataSpec(
            kind="images",
            num_classes=len(names),
            class_names=names,
            class_shares=class_shares(labels, len(names)),
            image_shape=self._shape,
            image_mean=tuple(facts["mean"]),
            image_deviation=tuple(facts["deviation"]),
        )

    def open_split(self, name: SplitName) -> ImageRows:
        facts, indices = self.content.facts, numbers(self.content.tables[name], "place")
        table = self.content.tables[facts["splits"][name]]
        return ImageRows(
            self,
            name,
            numbers(table, "image"),
            numbers(table, "label"),
            self._shape,
            _BRIGHTEST,
            indices=indices,
            mean=facts["mean"],
            deviation=facts["deviation"],
        )

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.content.facts["class_names"])

    def decode(self, ids: Sequence[int]) -> str:
        """Return the names of classes, since images have no tokens."""
        return " ".join(self.class_names[number] for number in ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return described_images(batch, self.class_names)

    def _decoded(self, name: str, chosen: ChosenImageColumns, report: Any) -> tuple[np.ndarray, list[Any]]:
        """Decode all pictures of a published split into an anonymous file that disappears with its last reader."""
        labels: list[Any] = []
        size = int(np.prod(self._shape))
        root = cache_root()
        root.mkdir(parents=True, exist_ok=True)
        with disk_full_message(root), tempfile.TemporaryFile(dir=root) as file:
            for rows in all_pixels(self._labelled(name, chosen, labels), self.image_size, self.colours):
                file.write(rows.tobytes())
                report(len(rows))
            file.flush()
            if not labels:
                others = [other for other in self.located.splits if other not in self.files]
                ours = next(ours for ours, theirs in self.published_splits.items() if theirs == name)
                raise hidden(self.published, ours, name, others)
            return np.memmap(file, dtype=np.uint8, mode="r", shape=(len(labels), size)), labels

    def _labelled(self, name: str, chosen: ChosenImageColumns, labels: list[Any]) -> Iterator[tuple[bytes, str]]:
        """Yield pictures with their locations; their labels are appended to `labels`."""
        for file in self.files[name]:
            for number, content, label in rows_of(file, chosen):
                if not is_unlabelled(label):
                    labels.append(label)
                    yield content, f"{file}, row {number}"

    def _numbered(self, name: str, labels: Sequence[Any], classes: Classes) -> np.ndarray:
        where = f"{self.published}, split {name},"
        known = [classes.number_of(label, "label", lambda: where) for label in labels]
        return np.array(known, dtype=smallest_integer(len(classes.names)))

    @property
    def _tables_of_splits(self) -> dict[str, str]:
        train = str(self.published_splits["train"])
        return {str(ours): _table_of(theirs or train) for ours, theirs in self.published_splits.items()}

    def _shared_out(self, labels: Mapping[str, np.ndarray]) -> dict[SplitName, np.ndarray]:
        """Return the rows of each split in its table; a share of the train rows is stratified by class."""
        indices: dict[SplitName, np.ndarray] = {
            ours: np.arange(len(labels[theirs])) for ours, theirs in self.published_splits.items() if theirs is not None
        }
        missing = {ours: share for ours, share in self.shares.items() if self.published_splits[ours] is None}
        if missing:
            generator = np.random.default_rng(self.seed)
            shared = stratified(labels[str(self.published_splits["train"])], missing, generator)
            indices |= {ours: np.sort(rows) for ours, rows in shared.items()}
        for ours in SPLIT_NAMES:
            if not len(indices[ours]):
                raise DataError(
                    f"{self.published} leaves the {ours} split empty: give a larger data.validation_share and "
                    f"data.test_share, or a published split, data.{ours}_split=NAME."
                )
        return indices

    def _check_room(self, total: int) -> None:
        root = cache_root()
        there = next(folder for folder in (root, *root.parents) if folder.exists())
        needed, free = _COPIES * total * int(np.prod(self._shape)), shutil.disk_usage(there).free
        if needed > free:
            raise DataError(
                f"{self.published} has {total:,} images, which at data.image_size={self.image_size} take "
                f"{needed / 2**30:.1f} GiB while they are decoded, and {free / 2**30:.1f} GiB are free at {there}: "
                f"give a smaller data.image_size, or set HEADTOHEAD_CACHE to a folder on a larger disk."
            )

    @property
    def _shape(self) -> tuple[int, int, int]:
        return shape_of(self.image_size, self.colours)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the listing of a repository, which may be long, before pickling."""
        return {name: value for name, value in super().__getstate__().items() if name != "located"}


def _table_of(published_split: str) -> str:
    """Return a name that none of our own splits has."""
    return f"published_{published_split}"
