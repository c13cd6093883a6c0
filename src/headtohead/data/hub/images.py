"""Published sets of pictures (https://huggingface.co/docs/datasets/image_dataset), decoded once and kept as bytes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headtohead.data.bars import bar
from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared, told_when_full
from headtohead.data.classes import Classes, class_shares
from headtohead.data.contracts import SPLIT_NAMES, DataError, DataKind, DataSpec, SplitName
from headtohead.data.decoding import Colours, all_pixels, check_picture_fields, shape_of
from headtohead.data.files import check_shares, content_digest
from headtohead.data.hub.choosing import chosen_splits, hidden, is_unlabelled
from headtohead.data.hub.fetching import fetched
from headtohead.data.hub.locating import Located, located
from headtohead.data.hub.picture_files import Chosen, PictureColumns, chosen_columns, classes_of, num_rows_of, rows_of
from headtohead.data.hub.published import Published
from headtohead.data.images import ImageRows, described_images, mean_and_deviation, stratified
from headtohead.data.places import cache_root
from headtohead.data.source import CachedSource
from headtohead.data.storage import Table, numbers, smallest_integer
from headtohead.ranges import BatchSize, Length, Probability, Seed

_BRIGHTEST = 255
_COPIES = 2
"""Of the pixels on disk, while the cache is written."""


class HubImages(CachedSource):
    """Images are scaled and cut in the middle to a square; what a model reads has, over the train split, mean 0 and
    deviation 1 in each channel. Rows whose label is not given away are left out."""

    name: ClassVar[str] = "hub_images"
    kind: ClassVar[DataKind | None] = "images"

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
        validation_share: Probability = 0.1,
        test_share: Probability = 0.1,
        image_column: str | None = None,
        label_column: str | None = None,
        image_size: Length = 32,
        colours: Colours = "rgb",
        batch_size: BatchSize = 64,
        seed: Seed = 0,
        drop_shared: bool = False,
        about: dict[str, str] | None = None,
    ) -> None:
        super().__init__(batch_size)
        self.drop_shared = drop_shared
        check_picture_fields(image_size, colours)
        self.published = Published(name, subset, revision, folder)
        self.asked_splits: dict[SplitName, str | None] = {
            "train": train_split,
            "validation": validation_split,
            "test": test_split,
        }
        self.shares = check_shares(validation_share, test_share)
        self.asked_columns = PictureColumns(image_column, label_column)
        self.image_size, self.colours, self.seed, self.about = image_size, colours, seed, about

    @cached_property
    def located(self) -> Located:
        return located(self.published)

    @cached_property
    def published_splits(self) -> dict[SplitName, str | None]:
        """The published split of each of ours; None where it is a share of the train rows."""
        return chosen_splits(self.published, self.asked_splits, self.located.splits)

    @cached_property
    def files(self) -> dict[str, list[Path]]:
        """Of each published split that is in use."""
        return {name: fetched(self.located, name) for name in self.published_splits.values() if name is not None}

    def parameters(self) -> Mapping[str, Any]:
        """A commit never changes; of a folder, the files themselves are looked at, and the names that its card has."""
        if self.published.folder is None:
            origin: Mapping[str, Any] = self.located.provenance()
        else:
            origin = {name: [content_digest(file) for file in files] for name, files in self.files.items()}
            origin = {**origin, "names": self.located.all_class_names()}
        return {
            "origin": {name: told for name, told in origin.items() if name != "licence"},
            "splits": self.published_splits,
            "columns": [self.asked_columns.image, self.asked_columns.label],
            "image_size": self.image_size,
            "colours": self.colours,
            "shares": self.shares,
            "seed": self.seed,
        }

    def provenance(self) -> Mapping[str, Any]:
        return self.located.provenance()

    def settled(self) -> Mapping[str, Any]:
        return self.located.settled()

    def view_parameters(self) -> Mapping[str, Any]:
        """Rows of another set or revision are other rows, though they may look alike."""
        origin = {name: told for name, told in self.located.provenance().items() if name != "licence"}
        return {"origin": origin} if origin else {}

    def make(self) -> Prepared:
        train = str(self.published_splits["train"])
        chosen = chosen_columns(self.asked_columns, self.files[train][0], self.located.features, str(self.published))
        total = sum(num_rows_of(file) for files in self.files.values() for file in files)
        self._check_room(total)
        pictures: dict[str, tuple[np.ndarray, list[Any]]] = {}
        with bar(f"decoding {self.published.name or self.published}", total) as tell:
            for name in sorted(self.files, key=lambda name: name != train):
                pictures[name] = self._decoded(name, chosen, tell)
        classes = classes_of(chosen, pictures[train][1])
        tables: dict[str, Table] = {
            _table_of(name): {"image": images, "label": self._numbered(name, labels, classes)}
            for name, (images, labels) in pictures.items()
        }
        places = self._shared_out({name: numbers(tables[_table_of(name)], "label") for name in self.files})
        images = numbers(tables[_table_of(train)], "image")
        mean, deviation = mean_and_deviation(images, places["train"], self._shape)
        facts = {"class_names": classes.names, "mean": mean, "deviation": deviation, "splits": self._tables_of_splits}
        return Prepared({**tables, **{str(name): {"place": places[name]} for name in SPLIT_NAMES}}, facts)

    def describe_rows(self) -> DataSpec:
        names, facts = self.class_names, self.content.facts
        places = numbers(self.content.tables["train"], "place")
        labels = numbers(self.content.tables[facts["splits"]["train"]], "label")[places]
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
        facts, places = self.content.facts, numbers(self.content.tables[name], "place")
        table = self.content.tables[facts["splits"][name]]
        return ImageRows(
            self,
            name,
            numbers(table, "image"),
            numbers(table, "label"),
            self._shape,
            _BRIGHTEST,
            places=places,
            mean=facts["mean"],
            deviation=facts["deviation"],
        )

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.content.facts["class_names"])

    def decode(self, ids: Sequence[int]) -> str:
        """Images have no tokens: the names of classes."""
        return " ".join(self.class_names[number] for number in ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return described_images(batch, self.class_names)

    def _decoded(self, name: str, chosen: Chosen, tell: Any) -> tuple[np.ndarray, list[Any]]:
        """All pictures of a published split, in a file without a name that goes when nobody reads it any more."""
        labels: list[Any] = []
        size = int(np.prod(self._shape))
        root = cache_root()
        root.mkdir(parents=True, exist_ok=True)
        with told_when_full(root), tempfile.TemporaryFile(dir=root) as file:
            for rows in all_pixels(self._labelled(name, chosen, labels), self.image_size, self.colours):
                file.write(rows.tobytes())
                tell(len(rows))
            file.flush()
            if not labels:
                others = [other for other in self.located.splits if other not in self.files]
                ours = next(ours for ours, theirs in self.published_splits.items() if theirs == name)
                raise hidden(self.published, ours, name, others)
            return np.memmap(file, dtype=np.uint8, mode="r", shape=(len(labels), size)), labels

    def _labelled(self, name: str, chosen: Chosen, labels: list[Any]) -> Iterator[tuple[bytes, str]]:
        """Pictures and where they stand; their labels go into `labels`."""
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
        """The places of the rows of each split in its table; a share of the train rows has its share of each class."""
        places: dict[SplitName, np.ndarray] = {
            ours: np.arange(len(labels[theirs])) for ours, theirs in self.published_splits.items() if theirs is not None
        }
        missing = {ours: share for ours, share in self.shares.items() if self.published_splits[ours] is None}
        if missing:
            generator = np.random.default_rng(self.seed)
            shared = stratified(labels[str(self.published_splits["train"])], missing, generator)
            places |= {ours: np.sort(rows) for ours, rows in shared.items()}
        for ours in SPLIT_NAMES:
            if not len(places[ours]):
                raise DataError(
                    f"{self.published} leaves the {ours} split empty: give a larger data.validation_share and "
                    f"data.test_share, or a published split, data.{ours}_split=NAME."
                )
        return places

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
        """The listing of a repository, which may be long, does not travel."""
        return {name: value for name, value in super().__getstate__().items() if name != "located"}


def _table_of(published_split: str) -> str:
    """A name that none of our own splits has."""
    return f"published_{published_split}"
