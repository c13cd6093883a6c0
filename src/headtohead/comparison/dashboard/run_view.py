"""One way to look at the runs: those that a filter lets through, in groups and in an order, brought up to date run by
run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from headtohead.comparison.dashboard.row_facts import label_of
from headtohead.records.run_filters import run_filter
from headtohead.records.run_query import natural, order_of
from headtohead.records.run_summary import RunSummary


class ViewOf(NamedTuple):
    """A filter, a field to group by and an order: one way to look at the runs."""

    filter: str
    group: str
    sort: str


class Selection:
    """The runs that are chosen: some by their keys, or all that the filter lets through but some."""

    def __init__(self, keys: Iterable[str]) -> None:
        chosen = [key for key in keys if key]
        self.is_all = "*" in chosen
        self._but = {key[1:] for key in chosen if key.startswith("!")}
        self._keys = set(chosen)

    def __contains__(self, key: str) -> bool:
        return key not in self._but if self.is_all else key in self._keys


class RunView:
    """The matching runs of a view; of each the label and the place in the order are held, and nothing more."""

    def __init__(self, of: ViewOf) -> None:
        self._of, self._matches = of, run_filter(of.filter)
        self._key, self._is_reversed = order_of(of.sort)
        self._entries: dict[str, tuple[str, Any]] = {}
        self._groups: list[tuple[str, list[str]]] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def take(self, key: str, run: RunSummary) -> None:
        """Bring one run up to date."""
        entry = (label_of(run, self._of.group), self._key(run)) if self._matches(run) else None
        if entry == self._entries.get(key):
            return
        self._groups = None
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry

    def drop(self, keys: Iterable[str]) -> None:
        """Forget runs that are gone."""
        for key in keys:
            if self._entries.pop(key, None) is not None:
                self._groups = None

    def groups(self) -> list[tuple[str, list[str]]]:
        """Return labels with keys: groups by number or name, in each the runs in their order."""
        if self._groups is None:
            keys = sorted(self._entries)
            keys.sort(key=lambda key: self._entries[key][1], reverse=self._is_reversed)
            groups: dict[str, list[str]] = {}
            for key in keys:
                groups.setdefault(self._entries[key][0], []).append(key)
            self._groups = sorted(groups.items(), key=lambda item: _label_key(item[0]))
        return self._groups

    def keys(self) -> Iterator[str]:
        """Yield the runs as they stand in the list."""
        for _, keys in self.groups():
            yield from keys

    def selected(self, selection: Selection, most: int) -> tuple[int, list[str]]:
        """Return how many runs are selected, and those that are drawn: all, or of very many as many of each group."""
        chosen = [[key for key in keys if key in selection] for _, keys in self.groups()]
        total = sum(map(len, chosen))
        if total <= most:
            return total, [key for keys in chosen for key in keys]
        each = _fair_shares([len(keys) for keys in chosen], most)
        return total, [key for keys, share in zip(chosen, each, strict=True) for key in _spread(keys, share)]


def _fair_shares(sizes: list[int], most: int) -> list[int]:
    """Return how many of each group are drawn: the same number of all that have as many."""
    shares, left = [0] * len(sizes), most
    while left and (open_ones := [at for at, size in enumerate(sizes) if shares[at] < size]):
        more = max(1, left // len(open_ones))
        for at in open_ones[:left]:
            added = min(more, sizes[at] - shares[at], left)
            shares[at] += added
            left -= added
    return shares


def _spread(keys: list[str], number: int) -> list[str]:
    """Return so many of the keys, evenly spaced."""
    return [keys[at * len(keys) // number] for at in range(number)]


def _label_key(label: str) -> tuple[int, float, list[tuple[int, int, str]]]:
    try:
        return 0, float(label), []  # 0.003 before 0.01
    except ValueError:
        return 1, 0.0, natural(label)
