"""Published images too many to decode beforehand: fetched as training proceeds, decoded batch by batch, and
discarded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch

from headtohead.data.batches.batch import Batch
from headtohead.data.batches.image_decoding import PictureSize, all_pixels, shape_of
from headtohead.data.cache.arrow_columns import Ragged, Table, numbers, ragged, smallest_integer
from headtohead.data.cache.cached_source import CachedSource, CachedSplit, code_digest
from headtohead.data.cache.paths import cache_root
from headtohead.data.cache.prepared_content import PreparedContent, fingerprint
from headtohead.data.data_source import DataError, DataSpec, SplitName
from headtohead.data.row_formats.class_names import Classes, class_shares
from headtohead.data.row_formats.image_rows import ImageRows, described_images, mean_and_deviation, normalised
from headtohead.data.row_formats.token_rows import as_tensor
from headtohead.data.sources.hub.dataset_location import DatasetLocation, locate_dataset
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.image_columns import (
    ChosenImageColumns,
    PictureColumns,
    chosen_of,
    picture_bytes,
)
from headtohead.data.sources.hub.split_choice import check_apart, is_unlabelled
from headtohead.data.splits.leaks import LEAKS
from headtohead.data.splits.row_leaks import leaks_of
from headtohead.data.streaming.parquet_shards import (
    Shard,
    TrainShard,
    checked_shards_of,
    schema_at,
    schema_check_for,
    table_of,
)
from headtohead.data.streaming.shard_cache import ShardCache
from headtohead.data.streaming.stream_order import InterleavedSplit, ShardStream, StreamFields, shards_and_rows_of
from headtohead.field_group import FieldGroup
from headtohead.ranges import BatchSize, Rows

_BRIGHTEST = 255
_GIGABYTE = 10**9
_LANE_STREAM = 5
"""Keeps the orders of lanes apart from other uses of the same seed."""
_LARGEST_PART = 10
"""The number of train images of which one at most is held out."""
_TOGETHER = 8
"""Pictures of a batch that a thread decodes."""


@dataclass(frozen=True)
class StreamedSplits(FieldGroup):
    """The published splits that are read as train and test, and how many of their images are validation and test."""

    train_split: str = "train"
    test_split: str = "test"
    num_validation: Rows = 1_000
    num_test: Rows | None = None


class StreamedImages(CachedSource):
    """Parquet files of pictures. The first train images are held out for validation, the same under every seed, and
    mean and deviation of each channel are those of the images after them."""

    name: ClassVar[str] = "stream_images"
    kind = "images"

    def __init__(
        self,
        *,
        published: DatasetReference = DatasetReference(),
        splits: StreamedSplits = StreamedSplits(),
        columns: PictureColumns = PictureColumns(),
        num_measured: Rows = 2_000,
        pictures: PictureSize = PictureSize(image_size=224),
        stream: StreamFields = StreamFields(shuffle_buffer=2_000, keep_gigabytes=20.0),
        batch_size: BatchSize = 64,
        about: dict[str, str] | None = None,
    ) -> None:
        super().__init__(batch_size)
        pictures.check()
        stream.check(num_validation=splits.num_validation, num_test=splits.num_test, num_measured=num_measured)
        self.published, self.columns = published, columns
        self.published_splits: dict[str, str] = {"train": splits.train_split, "test": splits.test_split}
        self.num_validation, self.num_test, self.num_measured = splits.num_validation, splits.num_test, num_measured
        self.image_size, self.colours, self.about = pictures.image_size, pictures.colours, about
        self.lanes, self.shuffle_buffer, self.keep_gigabytes = (
            stream.lanes,
            stream.shuffle_buffer,
            stream.keep_gigabytes,
        )

    @cached_property
    def located(self) -> DatasetLocation:
        return locate_dataset(self.published)

    @cached_property
    def addresses(self) -> dict[str, list[str]]:
        return {ours: self.located.addresses(theirs) for ours, theirs in self.published_splits.items()}

    def parameters(self) -> Mapping[str, object]:
        """Return what determines the content. A commit never changes; for a folder, the times of its files count, and
        the names of its card."""
        folder, result = self.published.path, self.located
        now: list[Any] = []
        files = {ours: result.files(theirs)[theirs] for ours, theirs in self.published_splits.items()}
        if folder is not None:
            written = [(folder / file.path).stat().st_mtime_ns for own in files.values() for file in own]
            now = [written, result.all_class_names()]
        return {
            "files": {ours: [[file.path, file.size, file.sha256] for file in own] for ours, own in files.items()},
            "origin": result.provenance(),
            "folder": [self.published.folder, *now],
            "columns": [self.columns.image_column, self.columns.label_column],
            "counts": [self.num_validation, self.num_test, self.num_measured],
            "image_size": self.image_size,
            "colours": self.colours,
        }

    def provenance(self) -> Mapping[str, Any]:
        return self.located.provenance()

    def pinned_fields(self) -> Mapping[str, object]:
        return self.located.pinned_fields()

    def view_parameters(self) -> Mapping[str, object]:
        return {"lanes": self.lanes, "shuffle_buffer": self.shuffle_buffer}

    def make(self) -> PreparedContent:
        train_split, test_split = (self.published_splits[name] for name in ("train", "test"))
        check_apart(self.published, {"train": train_split, "test": test_split}, self.located.splits)
        chosen = chosen_of(
            self.columns, schema_at(self.addresses["train"][0]), self.located.features, str(self.published)
        )
        if chosen.class_names is None:
            raise DataError(
                f"{self.published} does not name the classes of its column {chosen.label}, and a stream cannot look "
                f"for them: give data.label_column, or another set."
            )
        shards = {
            ours: checked_shards_of(addresses, schema_check_for(chosen)) for ours, addresses in self.addresses.items()
        }
        rows = self._rows(shards["train"], chosen, self.addresses["train"])
        classes = Classes(chosen.class_names)
        held_out = min(self.num_validation, sum(shard.num_rows for shard in shards["train"]) // _LARGEST_PART)
        tables = {"validation": self._decoded(islice(rows, held_out), classes)}
        measured = self._decoded(islice(rows, self.num_measured), classes)
        test = self._rows(shards["test"], chosen, self.addresses["test"])
        tables["test"] = self._decoded(islice(test, self.num_test), classes)
        for name, table in tables.items():
            if not len(numbers(table, "label")):
                raise DataError(
                    f"{self.published}: the labels of its {self.published_splits.get(name, 'train')} split are not "
                    f"published: give data.test_split={' or '.join(self._others)}."
                )
        images = numbers(measured, "image")
        mean, deviation = mean_and_deviation(images, np.arange(len(images)), self._shape)
        facts = {
            "class_names": classes.names,
            "class_shares": class_shares(numbers(measured, "label"), len(classes.names)),
            "mean": mean,
            "deviation": deviation,
            "columns": [chosen.image, chosen.label],
            LEAKS: {**leaks_of({**tables, "train": measured}), "of_all": False},
            "held_out": held_out,
            "units": [[shard.file, shard.row_group, shard.num_rows] for shard in shards["train"]],
        }
        return PreparedContent(tables, facts)

    def describe_rows(self) -> DataSpec:
        facts = self.content.facts
        return DataSpec(
            kind="images",
            num_classes=len(facts["class_names"]),
            class_names=tuple(facts["class_names"]),
            class_shares=tuple(facts["class_shares"]),
            image_shape=self._shape,
            image_mean=tuple(facts["mean"]),
            image_deviation=tuple(facts["deviation"]),
        )

    def open_split(self, name: SplitName) -> ImageRows | StreamedImageRows:
        facts = self.content.facts
        if name == "train":
            return StreamedImageRows(self, name)
        table = self.content.tables[name]
        images, labels = numbers(table, "image"), numbers(table, "label")
        scale = {"mean": facts["mean"], "deviation": facts["deviation"]}
        return ImageRows(self, name, images, labels, self._shape, _BRIGHTEST, **scale)

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.content.facts["class_names"])

    def decode(self, ids: Sequence[int]) -> str:
        """Return the names of classes, since images have no tokens."""
        return " ".join(self.class_names[number] for number in ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return described_images(batch, self.class_names)

    def train_shards(self) -> list[TrainShard]:
        """Return the shards with images that are not held out."""
        left, result = int(self.content.facts["held_out"]), []
        for number, shard in enumerate(self._shards):
            held_out = min(left, shard.num_rows)
            left -= held_out
            if shard.num_rows > held_out:
                result.append(TrainShard(number, shard.num_rows - held_out, held_out))
        return result

    def cache(self) -> ShardCache:
        """Return the cache of pictures as they are published, shared by all runs on this machine, whatever their image
        sizes."""
        facts, parameters = self.content.facts, self.parameters()
        origin = {name: parameters[name] for name in ("origin", "folder", "files")}
        labelled = {name: facts[name] for name in ("columns", "class_names", "units")}
        content = {**origin, **labelled, "splits": self.published_splits, "code": code_digest(type(self))}
        folder = cache_root() / f"{self.name}_units" / fingerprint(content)
        return ShardCache(folder, self._files_of, max_bytes=int(self.keep_gigabytes * _GIGABYTE), sized_by="bytes")

    def _files_of(self, number: int) -> Table | None:
        """Return the encoded pictures of a shard and their labels."""
        shard, (image, label) = self._shards[number], self.content.facts["columns"]
        address = self.addresses["train"][shard.file]
        table = table_of(address, shard.row_group, [image, label])
        where = f"row group {shard.row_group} of {address}"
        files = [picture_bytes(picture, where) for picture in table.column(image).to_pylist()]
        labels = table.column(label).to_pylist()
        if any(is_unlabelled(label) for label in labels):
            raise DataError(f"{where} has rows without a label: a stream needs one for each train image.")
        lengths = np.array([len(file) for file in files])
        joined = Ragged.of_lengths(np.frombuffer(b"".join(files), dtype=np.uint8), lengths)
        classes = Classes(self.class_names)
        known = [classes.number_of(label, "label", lambda: where) for label in labels]
        return {"bytes": joined, "label": np.array(known, dtype=np.int64)}

    def _rows(
        self, shards: Sequence[Shard], chosen: ChosenImageColumns, addresses: Sequence[str]
    ) -> Iterator[tuple[bytes, str, Any]]:
        """Yield the labelled rows in the order of the files."""
        for shard in shards:
            table = table_of(addresses[shard.file], shard.row_group, [chosen.image, chosen.label])
            where = f"row group {shard.row_group} of {addresses[shard.file]}"
            pictures = table.column(chosen.image).to_pylist()
            for picture, label in zip(pictures, table.column(chosen.label).to_pylist(), strict=True):
                if not is_unlabelled(label):
                    yield picture_bytes(picture, where), where, label

    def _decoded(self, rows: Iterator[tuple[bytes, str, Any]], classes: Classes) -> Table:
        labels: list[int] = []

        def contents() -> Iterator[tuple[bytes, str]]:
            for content, where, label in rows:
                labels.append(classes.number_of(label, "label", partial(str, where)))
                yield content, where

        none = np.zeros((0, int(np.prod(self._shape))), dtype=np.uint8)
        images = np.concatenate([none, *all_pixels(contents(), self.image_size, self.colours)])
        return {"image": images, "label": np.array(labels, dtype=smallest_integer(len(classes.names)))}

    @cached_property
    def _shards(self) -> list[Shard]:
        return [Shard(*entry) for entry in self.content.facts["units"]]

    @property
    def _others(self) -> list[str]:
        return [name for name in self.located.splits if name not in self.published_splits.values()]

    @property
    def _shape(self) -> tuple[int, int, int]:
        return shape_of(self.image_size, self.colours)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the listing of a repository, which may be long, before pickling."""
        unsent = ("located", "addresses", "_units")
        return {name: value for name, value in super().__getstate__().items() if name not in unsent}


class StreamedImageRows(CachedSplit, InterleavedSplit):
    """The train images of a stream, decoded when a batch needs them."""

    def __init__(self, source: StreamedImages, name: SplitName) -> None:
        super().__init__(source, name)
        self._images, self._shards, self._cache = source, source.train_shards(), source.cache()
        spec = source.describe_rows()
        self._mean, self._deviation = spec.image_mean, spec.image_deviation

    def __len__(self) -> int:
        """Return the number of rows of one pass."""
        return sum(shard.num_rows for shard in self._shards)

    def lanes(self, seed: int) -> list[ShardStream]:
        source, numbers_of_shards = self._images, range(len(self._shards))
        num_lanes = min(source.lanes, len(self._shards))
        largest = max(shard.num_rows for shard in self._shards)
        return [
            ShardStream(
                numbers_of_shards[lane::num_lanes],
                self.num_rows,
                self._prefetch,
                window=max(1, -(-source.shuffle_buffer // largest)),
                seed=(seed, lane, _LANE_STREAM),
            )
            for lane in range(num_lanes)
        ]

    def num_rows(self, shard: int) -> int:
        return self._shards[shard].num_rows

    def _prefetch(self, shards: Iterable[int]) -> None:
        self._cache.prefetch(self._shards[shard].number for shard in shards)

    def batch(self, rows: np.ndarray) -> Batch:
        shards, indices = shards_and_rows_of(rows)
        contents: list[tuple[bytes, str]] = []
        labels = []
        for shard, index in zip(shards.tolist(), indices.tolist(), strict=True):
            known = self._shards[shard]
            table, row = self._cache.table(known.number), index + known.held_out
            contents.append((ragged(table, "bytes")[row].tobytes(), f"picture {row} of row group {known.number}"))
            labels.append(int(numbers(table, "label")[row]))
        source = self._images
        shape = shape_of(source.image_size, source.colours)
        none = np.zeros((0, int(np.prod(shape))), dtype=np.uint8)
        pixels = np.concatenate([none, *all_pixels(contents, source.image_size, source.colours, together=_TOGETHER)])
        return Batch(
            rows=as_tensor(rows),
            images=normalised(pixels, shape, _BRIGHTEST, self._mean, self._deviation),
            targets=torch.tensor(labels, dtype=torch.long),
        )
