"""A located data set: its revision, the files of its splits, and the features and the licence on its card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from headtohead.data.data_source import DataError
from headtohead.data.sources.hub.column_types import class_names_of, features_of_card
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.repository_listing import Listing, listing
from headtohead.data.sources.hub.split_files import Splits, splits_of


@dataclass(frozen=True)
class DatasetLocation:
    """Nothing of its data is fetched yet."""

    published: DatasetReference
    listing: Listing
    splits: Splits
    """The splits by their published names."""

    @property
    def revision(self) -> str:
        """Return the commit; empty for a folder without a named revision."""
        return self.listing.revision

    @property
    def licence(self) -> str:
        """Return the licence of the card; several are separated by commas."""
        licence = self.listing.card.get("license")
        return ", ".join(map(str, licence)) if isinstance(licence, list) else str(licence or "")

    @cached_property
    def features(self) -> Mapping[str, object]:
        """Return the columns and their types (`datasets.Features`), as far as the card has them; empty where it does
        not."""
        return features_of_card(self.listing.card, self.published.subset)

    def class_names(self, column: str) -> tuple[str, ...] | None:
        """Return the class names of a column of labels, or of lists of labels, from the card."""
        return class_names_of(self.features, column)

    def all_class_names(self) -> dict[str, tuple[str, ...]]:
        """Return the class names by column."""
        return {column: names for column in self.features if (names := self.class_names(column)) is not None}

    def identity(self) -> dict[str, str]:
        """Return what distinguishes rows of one set from those of another, for hashes; empty for a folder without a
        name."""
        named = {"set": self.published.name, "subset": self.published.subset, "revision": self.revision}
        return {name: value for name, value in named.items() if value}

    def provenance(self) -> dict[str, str]:
        """Return the provenance for records."""
        return {**self.identity(), **({"licence": self.licence} if self.licence else {})}

    def pinned_fields(self) -> dict[str, str]:
        """Return the revision, where none was given: on another machine it would be another one."""
        return {"revision": self.revision} if self.published.revision is None and self.revision else {}

    def files(self, split: str) -> Splits:
        """Return the files of one split; raise DataError where there is none of that name."""
        if split not in self.splits:
            raise DataError(f"{self.published} has no split {split!r}, it has {', '.join(map(repr, self.splits))}.")
        return {split: self.splits[split]}

    def addresses(self, split: str) -> list[str]:
        """Return where `datasets` streams the files of a split from: paths, or addresses of the hub."""
        folder = self.published.path
        paths = [file.path for file in self.files(split)[split]]
        if folder is not None:
            return [str(folder / path) for path in paths]
        return [f"hf://datasets/{self.published.name}@{self.revision}/{path}" for path in paths]


def locate_dataset(published: DatasetReference) -> DatasetLocation:
    """Ask the hub at most once for each revision: the answer is remembered on this machine, and serves offline."""
    listed = listing(published)
    return DatasetLocation(published, listed, splits_of(published, listed))
