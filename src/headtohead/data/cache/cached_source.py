"""All our sources share this base: prepared content from the cache, splits made once, copies that reopen the
cache."""

from __future__ import annotations

import hashlib
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

from headtohead.data.cache.prepared_content import PreparedContent, fingerprint, prepared
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSource, DataSpec, Split, SplitName
from headtohead.data.splits.leaks import LEAKS
from headtohead.data.splits.left_out_rows import LEFT_OUT, LeftOutFacts
from headtohead.data.splits.row_leaks import with_leaks


class CachedSource(DataSource):
    """Subclasses define what determines their content, how it is made, and how rows are cut from it."""

    name: ClassVar[str]
    """The choice of conf/data that builds it, for messages and for the cache."""
    draws_its_rows: bool = False
    """Whether its rows are drawn from a space that it knows, in which some may repeat: that is not a leak."""
    drop_shared: bool = False
    """Whether rows that occur in validation or test too are left out of train."""

    def __init__(self, batch_size: int) -> None:
        if batch_size < 1:
            raise DataError(f"data.batch_size={batch_size} must be at least 1.")
        self.batch_size = batch_size
        self._content: PreparedContent | None = None
        self._splits: dict[str, Split] = {}

    @abstractmethod
    def parameters(self) -> Mapping[str, object]:
        """Return everything that determines the content, and nothing else."""

    @abstractmethod
    def make(self) -> PreparedContent:
        """Generate or read, and tokenize: one table per split."""

    @abstractmethod
    def describe_rows(self) -> DataSpec:
        """Return the description, without its data_hash and decode; reads `content` where it must."""

    @abstractmethod
    def open_split(self, name: SplitName) -> Split:
        """Return the rows of one split."""

    def view_parameters(self) -> Mapping[str, object]:
        """Return what changes rows without changing the content they are cut from."""
        return {}

    @property
    def content(self) -> PreparedContent:
        if self._content is None:
            dropping = {"drop_shared": True} if self.drop_shared else {}
            parameters = {"code": code_digest(type(self)), **self.parameters(), **dropping}
            self._content = prepared(self.name, parameters, self._compared)
        return self._content

    def _compared(self) -> PreparedContent:
        """Return the content with its leaks counted: sources of texts compare texts, and all others their rows."""
        made = self.make()
        return made if LEAKS in made.facts else with_leaks(made, drop=self.drop_shared, draws=self.draws_its_rows)

    @property
    def drop_field(self) -> str | None:
        """Return the field that drops shared rows from train; None where none does."""
        return "data.drop_shared" if "drop_shared" in signature(type(self)).parameters else None

    def leaks(self) -> Mapping[str, Any]:
        facts = self.content.facts.get(LEAKS, {})
        return {**facts, "drop_field": self.drop_field} if facts else {}

    def left_out(self) -> LeftOutFacts:
        facts: LeftOutFacts = self.content.facts.get(LEFT_OUT, {})
        return facts

    def prepare(self) -> None:
        _ = self.content

    def spec(self) -> DataSpec:
        rows = {"content": self.content.digest, "view": dict(self.view_parameters())}
        return replace(
            self.describe_rows(),
            data_hash=fingerprint(rows),
            decode=self.decode,
            open_train=partial(self.split, "train"),
        )

    def split(self, name: SplitName) -> Split:
        if name not in SPLIT_NAMES:
            raise DataError(f"there is no split {name!r}: choose one of {', '.join(SPLIT_NAMES)}.")
        if name not in self._splits:
            self._splits[name] = self.open_split(name)
        return self._splits[name]

    def __getstate__(self) -> dict[str, Any]:
        """Drop the content before pickling: another process maps the files itself."""
        return {**self.__dict__, "_content": None, "_splits": {}}


@cache
def code_digest(source: type[CachedSource]) -> str:
    """Return the digest of this package's code and the class's own, so that no content of older code is used. It is
    that of the code which this process runs, whatever is written to the files later."""
    modules = [sys.modules[part.__module__] for part in source.__mro__ if issubclass(part, CachedSource)]
    own = [Path(file) for module in modules if (file := getattr(module, "__file__", None))]
    hashed = hashlib.sha256()
    for path in sorted(
        {*Path(__file__).parents[1].rglob("*.py"), *own}, key=lambda path: (path.name, path.parent.name)
    ):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


class CachedSplit(Split):
    """A split that travels to another process as the name of its source's files."""

    def __init__(self, source: CachedSource, name: SplitName) -> None:
        self._source, self._name = source, name

    def __reduce__(self) -> tuple[Callable[..., Split], tuple[Any, ...]]:
        return _open_again, (self._source, self._name)


def _open_again(source: CachedSource, name: SplitName) -> Split:
    return source.split(name)
