"""A published set as a configuration names it: a repository of a hub at a revision, or a copy of it in a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from headtohead.field_group import FieldGroup

_COMMIT = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class DatasetReference(FieldGroup):
    """A reference that is checked where it is located; making one costs nothing."""

    name: str | None = None
    """The name of the repository: stanfordnlp/sst2."""
    subset: str | None = None
    """The subset of a set that has several, as its card calls them."""
    revision: str | None = None
    """A commit, which never changes; a branch, looked up each time; None: the one that this machine found first,
    remembered."""
    folder: str | None = None
    """A copy of the repository on this machine; then no hub is asked."""

    @property
    def has_name(self) -> bool:
        """Return whether the name can be one of a hub."""
        return self.name is not None and _NAME.fullmatch(self.name) is not None

    def __str__(self) -> str:
        """Return the reference in words, for messages."""
        if self.folder is not None:
            return f"data.folder={self.folder}"
        return f"data.name={self.name}{f' data.subset={self.subset}' if self.subset else ''}"

    @property
    def path(self) -> Path | None:
        return None if self.folder is None else Path(self.folder).expanduser()


def is_commit(revision: str) -> bool:
    return _COMMIT.fullmatch(revision) is not None
