"""Published sets of texts as data of any kind: a repository of a hub at a revision, or a copy of it in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from headtohead.data.data_source import DataError, DataKind, SplitName
from headtohead.data.row_formats.labelled_text import ClassFormat
from headtohead.data.row_formats.tagged import TagFormat
from headtohead.data.row_formats.text_source import BucketedRows, RowFormat
from headtohead.data.sources.columns import SampleColumns, kind_of
from headtohead.data.sources.hub import row_files
from headtohead.data.sources.hub.column_types import chosen_columns, class_names_of
from headtohead.data.sources.hub.dataset_location import DatasetLocation, locate_dataset
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.downloads import fetch_file
from headtohead.data.sources.hub.row_files import Schema, schema_of
from headtohead.data.sources.hub.split_choice import UNLABELLED, PublishedSplits, chosen_splits, hidden, is_unlabelled
from headtohead.data.sources.local_files import FileSplits
from headtohead.data.sources.missing_values import MissingRows
from headtohead.data.sources.table_files import Columnar, TableFiles, TableFormat
from headtohead.ranges import Seed


class HubTables(TableFiles):
    """Columns and their roles are as in local tables; labels may be numbers of the names that the set publishes. Rows
    that lack a value are left out unless they are to be refused; a set may withhold the labels of a split."""

    name: ClassVar[str] = "hub"

    def __init__(
        self,
        *,
        published: DatasetReference = DatasetReference(),
        splits: PublishedSplits = PublishedSplits(),
        share_by: str | list[str] | None = None,
        columns: SampleColumns = SampleColumns(),
        form: TableFormat = TableFormat(),
        rows: BucketedRows = BucketedRows(),
        seed: Seed = 0,
        drop_shared: bool = False,
        missing: MissingRows = "drop",  # labels that are withheld, and rows without a text, are left out
        about: dict[str, str] | None = None,
    ) -> None:
        files = FileSplits(splits.validation_share, splits.test_share, missing=missing)
        super().__init__(
            files=files, share_by=share_by, columns=columns, form=form, rows=rows, seed=seed, drop_shared=drop_shared
        )
        self.published, self.requested_splits, self.about = published, splits.by_split(), about

    @cached_property
    def located(self) -> DatasetLocation:
        return locate_dataset(self.published)

    @cached_property
    def published_splits(self) -> dict[SplitName, str | None]:
        """Return the published split of each of ours; None where it is a share of the train rows."""
        return chosen_splits(self.published, self.requested_splits, self.located.splits)

    @cached_property
    def files(self) -> dict[SplitName, list[Path]]:
        chosen = self.published_splits.items()
        return {ours: [] if theirs is None else fetch_file(self.located, theirs) for ours, theirs in chosen}

    @cached_property
    def schema(self) -> Schema:
        """Return the schema of the first train file."""
        listed = self.located.splits[str(self.published_splits["train"])][0]
        return schema_of(self.located, listed, self.files["train"][0])

    @cached_property
    def chosen(self) -> tuple[DataKind, dict[str, str]]:
        features = {**self.schema.features, **self.located.features}
        return chosen_columns(self.columns, self.schema.column_names, features, str(self.published))

    @cached_property
    def published_classes(self) -> tuple[str, ...] | None:
        """Return the class names of the card or the first file, by their numbers."""
        parts = self.chosen[1]
        column = parts.get("label") or parts.get("tags")
        if column is None:
            return None
        known = self.located.class_names(column)
        return known or class_names_of(self.schema.features, column)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Return the class names given, else published; None means the labels of the train rows."""
        return self.class_names or self.published_classes

    @property
    def names_of_numbers(self) -> tuple[str, ...] | None:
        """Return the class names that numbers in the files stand for, even if the published names are given in another
        order or replaced; None where nothing is published: a number may then be a given name itself, else it is the
        index of one."""
        own, published = self.class_names, self.published_classes
        if own is None or published is None:
            return published
        return published if set(own) == set(published) else own

    @property
    def form(self) -> RowFormat[Any]:
        kind = self.chosen[0]
        if kind == "labelled_text":
            return ClassFormat(self.classes, self.max_length)
        return TagFormat(self.classes, self.max_length) if kind == "tagged_text" else super().form

    def sample_parameters(self) -> Mapping[str, object]:
        """Return what determines the samples, including the class names of the card, which is none of the files."""
        names = self.names_of_numbers
        return {**super().sample_parameters(), **({"names": names} if names else {})}

    def file_identities(self) -> Mapping[str, object]:
        """Return what identifies the files. Those of a commit never change, and so are not read again, however
        large."""
        if self.published.folder is not None:
            return super().file_identities()
        splits = {str(ours): theirs for ours, theirs in self.published_splits.items()}
        files = {name: self.located.splits[name] for name in splits.values() if name is not None}
        listed = {name: [[file.path, file.size, file.sha256] for file in result] for name, result in files.items()}
        return {**self.located.identity(), "splits": splits, "listed": listed}

    def column_names(self, file: Path) -> Sequence[str]:
        return row_files.column_names(file)

    def columns_of(self, file: Path, names: Sequence[str]) -> Columnar:
        return row_files.columns_of(file, names)

    def pieces_of(self, file: Path, names: Sequence[str]) -> Iterator[Columnar]:
        """Yield the file in pieces, without a value where a label is withheld. For labels, the whole file is read to
        see whether some are."""
        has_labels = "label" in self.chosen[1]
        pieces = [self.columns_of(file, names)] if has_labels else row_files.pieces_of(file, names)
        for piece in pieces:
            yield self._with_names(piece)

    def _with_names(self, table: Columnar) -> Columnar:
        """Replace class numbers by their names, and the number of a withheld label by nothing."""
        parts = self.chosen[1]
        columns: dict[str, Sequence[object]] = dict(table.columns)
        class_names = self.names_of_numbers
        for part in ("label", "tags"):
            if part in parts and class_names is not None:
                columns[parts[part]] = [_named(value, class_names) for value in columns[parts[part]]]
        if "label" in parts and self._hides(labels := columns[parts["label"]]):
            columns[parts["label"]] = [None if is_unlabelled(label) else label for label in labels]
        return Columnar(columns, table.numbers)

    def _hides(self, labels: Sequence[object]) -> bool:
        """Return whether -1 stands for a withheld label: it may be a class, by its name or among other numbers."""
        if self.classes is not None:
            return str(UNLABELLED) not in self.classes
        return all(map(is_unlabelled, labels))

    def read(self, file: Path) -> Iterator[tuple[Any, int]]:
        kind_of(self.chosen[1], self.column_names(file), file=f"{self.published}: {file.name}")
        yield from super().read(file)

    def nothing_in(self, name: SplitName) -> DataError:
        theirs = str(self.published_splits[name])
        others = [other for other in self.located.splits if other not in (theirs, self.published_splits["train"])]
        return hidden(self.published, name, theirs, others) if self.left_out_facts() else super().nothing_in(name)

    def where(self, file: Path | str, number: int) -> str:
        return row_files.where(file, number)

    def source_description(self) -> str:
        return str(self.published)

    def provenance(self) -> Mapping[str, Any]:
        left_out = self.left_out_facts() if self._content is None else self.left_out()
        return {**self.located.provenance(), **({"rows left out": left_out["files"]} if left_out else {})}

    def pinned_fields(self) -> Mapping[str, object]:
        return self.located.pinned_fields()

    def view_parameters(self) -> Mapping[str, object]:
        """Return the origin: rows of another set or revision are other rows, though they may read alike."""
        origin = self.located.identity()
        return {**super().view_parameters(), **({"origin": origin} if origin else {})}

    def __getstate__(self) -> dict[str, Any]:
        """Drop the listing of a repository, which may be long, and what needs `datasets` to be unpickled."""
        return {name: value for name, value in super().__getstate__().items() if name not in ("located", "schema")}


def _named(value: Any, names: Sequence[str]) -> Any:
    """Return a number as the name of its class; a list entry by entry; everything else as it is."""
    if isinstance(value, list):
        return [_named(entry, names) for entry in value]
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return names[value] if is_number and 0 <= value < len(names) else value
