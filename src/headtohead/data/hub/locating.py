"""A published set located: its revision, the files of its splits, the features and the licence that its card tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headtohead.data.contracts import DataError
from headtohead.data.hub.features import class_names_of, features_of_card
from headtohead.data.hub.listing import Listing, listing
from headtohead.data.hub.published import Published
from headtohead.data.hub.splitting import Splits, splits_of


@dataclass(frozen=True)
class Located:
    """Nothing of its data is fetched yet."""

    published: Published
    listing: Listing
    splits: Splits
    """By the names that it publishes."""

    @property
    def revision(self) -> str:
        """A commit; empty for a folder that no revision was named for."""
        return self.listing.revision

    @property
    def licence(self) -> str:
        """As the card says; several with commas between."""
        told = self.listing.card.get("license")
        return ", ".join(map(str, told)) if isinstance(told, list) else str(told or "")

    @cached_property
    def features(self) -> Mapping[str, Any]:
        """Columns and their types (`datasets.Features`), as far as the card tells them; empty where it does not."""
        return features_of_card(self.listing.card, self.published.subset)

    def class_names(self, column: str) -> tuple[str, ...] | None:
        """Of a column of labels, or of lists of labels, as the card tells them."""
        return class_names_of(self.features, column)

    def all_class_names(self) -> dict[str, tuple[str, ...]]:
        """By column."""
        return {column: names for column in self.features if (names := self.class_names(column)) is not None}

    def identity(self) -> dict[str, str]:
        """What tells rows of one set from those of another, for hashes; empty for a folder without a name."""
        named = {"set": self.published.name, "subset": self.published.subset, "revision": self.revision}
        return {name: value for name, value in named.items() if value}

    def provenance(self) -> dict[str, str]:
        """For records."""
        return {**self.identity(), **({"licence": self.licence} if self.licence else {})}

    def settled(self) -> dict[str, str]:
        """The revision, where none was given: on another machine it would be another one."""
        return {"revision": self.revision} if self.published.revision is None and self.revision else {}

    def files(self, split: str) -> Splits:
        """Those of one split; raises DataError where there is none of that name."""
        if split not in self.splits:
            raise DataError(f"{self.published} has no split {split!r}, it has {', '.join(map(repr, self.splits))}.")
        return {split: self.splits[split]}

    def addresses(self, split: str) -> list[str]:
        """Where `datasets` streams the files of a split from: paths, or addresses of the hub."""
        folder = self.published.path
        paths = [file.path for file in self.files(split)[split]]
        if folder is not None:
            return [str(folder / path) for path in paths]
        return [f"hf://datasets/{self.published.name}@{self.revision}/{path}" for path in paths]


def located(published: Published) -> Located:
    """Asks the hub at most once for each revision: the answer is remembered on this machine, and serves offline."""
    found = listing(published)
    return Located(published, found, splits_of(published, found))
