"""Published images too many to decode beforehand: fetched as training goes on, decoded batch by batch, and let go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch

from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared, fingerprint
from headtohead.data.classes import Classes, class_shares
from headtohead.data.contracts import DataError, DataSpec, SplitName
from headtohead.data.decoding import Colours, all_pixels, check_picture_fields, shape_of
from headtohead.data.hub.choosing import check_apart, is_unlabelled
from headtohead.data.hub.locating import Located, located
from headtohead.data.hub.picture_files import Chosen, PictureColumns, check_schema, chosen_of, picture_bytes
from headtohead.data.hub.published import Published
from headtohead.data.images import ImageRows, described_images, mean_and_deviation, normalised
from headtohead.data.leaking_rows import leaks_of
from headtohead.data.leaks import LEAKS
from headtohead.data.places import cache_root
from headtohead.data.rows import as_tensor
from headtohead.data.source import CachedSource, CachedSplit, code_digest
from headtohead.data.storage import Ragged, Table, numbers, ragged, smallest_integer
from headtohead.data.streaming.order import InLanes, Lane, places_of
from headtohead.data.streaming.shelf import Shelf
from headtohead.data.streaming.units import Unit, checked_units_of, schema_at, table_of
from headtohead.ranges import BatchSize, Count, Length, Positive, Rows

_BRIGHTEST = 255
_GIGABYTE = 10**9
_LANE_STREAM = 5
"""Keeps the orders of lanes apart from other uses of the same seed."""
_LARGEST_PART = 10
"""Of so many train images, one at most is held out."""
_TOGETHER = 8
"""Pictures of a batch that a thread decodes."""


@dataclass(frozen=True)
class TrainUnit:
    """What a row group has for training."""

    number: int
    """Of the row group, among all."""
    num_rows: int
    held_out: int
    """Rows before those."""


class StreamedImages(CachedSource):
    """Parquet files of pictures. The first train images are held out for validation, the same under every seed, and
    mean and deviation of each channel are those of the images after them."""

    name: ClassVar[str] = "stream_images"
    kind = "images"

    def __init__(
        self,
        *,
        name: str | None = None,
        subset: str | None = None,
        revision: str | None = None,
        folder: str | None = None,
        train_split: str = "train",
        test_split: str = "test",
        image_column: str | None = None,
        label_column: str | None = None,
        num_validation: Rows = 1_000,
        num_test: Rows | None = None,
        num_measured: Rows = 2_000,
        image_size: Length = 224,
        colours: Colours = "rgb",
        lanes: Count = 8,
        shuffle_buffer: Rows = 2_000,
        keep_gigabytes: Positive = 20.0,
        batch_size: BatchSize = 64,
        about: dict[str, str] | None = None,
    ) -> None:
        super().__init__(batch_size)
        check_picture_fields(image_size, colours)
        counts = {
            "num_validation": num_validation,
            "num_test": num_test,
            "num_measured": num_measured,
            "lanes": lanes,
            "shuffle_buffer": shuffle_buffer,
        }
        for field, value in counts.items():
            if value is not None and value < 1:
                raise DataError(f"data.{field}={value} must be at least 1.")
        if keep_gigabytes <= 0:
            raise DataError(f"data.keep_gigabytes={keep_gigabytes} must be above 0.")
        self.published, self.columns = (
            Published(name, subset, revision, folder),
            PictureColumns(image_column, label_column),
        )
        self.published_splits: dict[str, str] = {"train": train_split, "test": test_split}
        self.num_validation, self.num_test, self.num_measured = num_validation, num_test, num_measured
        self.image_size, self.colours, self.about = image_size, colours, about
        self.lanes, self.shuffle_buffer, self.keep_gigabytes = lanes, shuffle_buffer, keep_gigabytes

    @cached_property
    def located(self) -> Located:
        return located(self.published)

    @cached_property
    def addresses(self) -> dict[str, list[str]]:
        return {ours: self.located.addresses(theirs) for ours, theirs in self.published_splits.items()}

    def parameters(self) -> Mapping[str, Any]:
        """A commit never changes; of a folder it is told when files were written, and which names its card has."""
        folder, found = self.published.path, self.located
        now: list[Any] = []
        files = {ours: found.files(theirs)[theirs] for ours, theirs in self.published_splits.items()}
        if folder is not None:
            written = [(folder / file.path).stat().st_mtime_ns for own in files.values() for file in own]
            now = [written, found.all_class_names()]
        return {
            "files": {ours: [[file.path, file.size, file.sha256] for file in own] for ours, own in files.items()},
            "origin": found.provenance(),
            "folder": [self.published.folder, *now],
            "columns": [self.columns.image, self.columns.label],
            "counts": [self.num_validation, self.num_test, self.num_measured],
            "image_size": self.image_size,
            "colours": self.colours,
        }

    def provenance(self) -> Mapping[str, Any]:
        return self.located.provenance()

    def settled(self) -> Mapping[str, Any]:
        return self.located.settled()

    def view_parameters(self) -> Mapping[str, Any]:
        return {"lanes": self.lanes, "shuffle_buffer": self.shuffle_buffer}

    def make(self) -> Prepared:
        learned, tested = (self.published_splits[name] for name in ("train", "test"))
        check_apart(self.published, {"train": learned, "test": tested}, self.located.splits)
        chosen = chosen_of(
            self.columns, schema_at(self.addresses["train"][0]), self.located.features, str(self.published)
        )
        if chosen.class_names is None:
            raise DataError(
                f"{self.published} does not name the classes of its column {chosen.label}, and a stream cannot look "
                f"for them: give data.label_column, or another set."
            )
        units = {ours: checked_units_of(found, _check_for(chosen)) for ours, found in self.addresses.items()}
        rows = self._rows(units["train"], chosen, self.addresses["train"])
        classes = Classes(chosen.class_names)
        held_out = min(self.num_validation, sum(unit.num_rows for unit in units["train"]) // _LARGEST_PART)
        tables = {"validation": self._decoded(islice(rows, held_out), classes)}
        measured = self._decoded(islice(rows, self.num_measured), classes)
        test = self._rows(units["test"], chosen, self.addresses["test"])
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
            "units": [[unit.file, unit.row_group, unit.num_rows] for unit in units["train"]],
        }
        return Prepared(tables, facts)

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
        """Images have no tokens: the names of classes."""
        return " ".join(self.class_names[number] for number in ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return described_images(batch, self.class_names)

    def train_units(self) -> list[TrainUnit]:
        """Those with images that are not held out."""
        left, found = int(self.content.facts["held_out"]), []
        for number, unit in enumerate(self._units):
            held_out = min(left, unit.num_rows)
            left -= held_out
            if unit.num_rows > held_out:
                found.append(TrainUnit(number, unit.num_rows - held_out, held_out))
        return found

    def shelf(self) -> Shelf:
        """Files of pictures as they are published, shared by all runs on this machine, whatever their sizes."""
        facts, told = self.content.facts, self.parameters()
        kept = {name: told[name] for name in ("origin", "folder", "files")}
        labelled = {name: facts[name] for name in ("columns", "class_names", "units")}
        content = {**kept, **labelled, "splits": self.published_splits, "code": code_digest(type(self))}
        folder = cache_root() / f"{self.name}_units" / fingerprint(content)
        return Shelf(folder, self._files_of, room=int(self.keep_gigabytes * _GIGABYTE), sized_by="bytes")

    def _files_of(self, number: int) -> Table | None:
        """The pictures of a unit, not decoded, and their labels."""
        unit, (image, label) = self._units[number], self.content.facts["columns"]
        address = self.addresses["train"][unit.file]
        table = table_of(address, unit.row_group, [image, label])
        where = f"row group {unit.row_group} of {address}"
        files = [picture_bytes(picture, where) for picture in table.column(image).to_pylist()]
        labels = table.column(label).to_pylist()
        if any(is_unlabelled(given) for given in labels):
            raise DataError(f"{where} has rows without a label: a stream needs one for each train image.")
        lengths = np.array([len(file) for file in files])
        joined = Ragged.of_lengths(np.frombuffer(b"".join(files), dtype=np.uint8), lengths)
        classes = Classes(self.class_names)
        known = [classes.number_of(given, "label", lambda: where) for given in labels]
        return {"bytes": joined, "label": np.array(known, dtype=np.int64)}

    def _rows(
        self, units: Sequence[Unit], chosen: Chosen, addresses: Sequence[str]
    ) -> Iterator[tuple[bytes, str, Any]]:
        """In the order of the files, those with labels."""
        for unit in units:
            table = table_of(addresses[unit.file], unit.row_group, [chosen.image, chosen.label])
            where = f"row group {unit.row_group} of {addresses[unit.file]}"
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
    def _units(self) -> list[Unit]:
        return [Unit(*entry) for entry in self.content.facts["units"]]

    @property
    def _others(self) -> list[str]:
        return [name for name in self.located.splits if name not in self.published_splits.values()]

    @property
    def _shape(self) -> tuple[int, int, int]:
        return shape_of(self.image_size, self.colours)

    def __getstate__(self) -> dict[str, Any]:
        """The listing of a repository, which may be long, does not travel."""
        unsent = ("located", "addresses", "_units")
        return {name: value for name, value in super().__getstate__().items() if name not in unsent}


class StreamedImageRows(CachedSplit, InLanes):
    """The train images of a stream, decoded when a batch asks for them."""

    def __init__(self, source: StreamedImages, name: SplitName) -> None:
        super().__init__(source, name)
        self._images, self._units, self._shelf = source, source.train_units(), source.shelf()
        spec = source.describe_rows()
        self._mean, self._deviation = spec.image_mean, spec.image_deviation

    def __len__(self) -> int:
        """Of one pass."""
        return sum(unit.num_rows for unit in self._units)

    def lanes(self, seed: int) -> list[Lane]:
        source, numbers_of_units = self._images, range(len(self._units))
        num_lanes = min(source.lanes, len(self._units))
        largest = max(unit.num_rows for unit in self._units)
        return [
            Lane(
                numbers_of_units[lane::num_lanes],
                self.num_rows,
                self._want,
                window=max(1, -(-source.shuffle_buffer // largest)),
                seed=(seed, lane, _LANE_STREAM),
            )
            for lane in range(num_lanes)
        ]

    def num_rows(self, unit: int) -> int:
        return self._units[unit].num_rows

    def _want(self, units: Iterable[int]) -> None:
        self._shelf.want(self._units[unit].number for unit in units)

    def batch(self, rows: np.ndarray) -> Batch:
        units, places = places_of(rows)
        contents: list[tuple[bytes, str]] = []
        labels = []
        for unit, place in zip(units.tolist(), places.tolist(), strict=True):
            known = self._units[unit]
            table, row = self._shelf.table(known.number), place + known.held_out
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


def _check_for(chosen: Chosen) -> Any:
    return lambda address, schema: check_schema(address, schema, (chosen.image, chosen.label))
