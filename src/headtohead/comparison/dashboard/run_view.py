"""One way to look at the runs: those that a filter lets through, in groups and in an order, brought up to date run by
run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headtohead.metrics import unit_of
from headtohead.records.run_query import as_text, natural, order_of, run_filter, value_of
from headtohead.records.run_summary import RunSummary
from headtohead.records.strict_json import encode

GROUPS = ("arm", "name", "seed", "status", "group", "study", "trial", "share")
"""Fields to group by besides those of the configuration."""
UNKNOWN = "–"


def row_facts(run: RunSummary, group: str) -> dict[str, Any]:
    """Return all that the page shows of a run but its configuration, with the label of its group."""
    names = (
        "id", "name", "arm", "seed", "group", "study", "trial", "share", "tags", "notes", "status", "reason",
        "started", "metric", "stage", "value", "baseline", "direction", "selected_by", "max_steps", "costs",
        "progress", "results",
    )  # fmt: skip
    facts = {name: encode(getattr(run, name), name) for name in names}
    is_blind = run.setting("probe.at_end") is False and run.setting("probe.every") is None
    own = {"draws_nothing": is_blind, "task": task_of(run), "label": label_of(run, group)}
    task = run.setting("task")
    units = {name: unit for name in run.latest if (unit := unit_of(name, task if isinstance(task, str) else None))}
    return {**facts, **own, "latest": dict(run.latest), "units": units}


def task_of(run: RunSummary) -> str:
    """Return what a run learns, and from what: numbers of runs that differ here never share an axis."""
    names = ("task", "data", "data.path", "data.name", "data.subset", "data.folder")
    texts = [as_text(value) for name in names if isinstance(value := run.setting(name), str) and value]
    return " · ".join(dict.fromkeys(texts))


def label_of(run: RunSummary, group: str) -> str:
    """Return the name of the group that a run is in, when runs are grouped by this field."""
    if not group:
        return ""
    value = value_of(run, group)
    return UNKNOWN if value is None else as_text(value)


def differing_fields(runs: Iterable[RunSummary]) -> list[str]:
    """Return the fields of the configuration in which these runs differ, by name; equal sections are looked at once."""
    total = 0
    sections: dict[int, tuple[int, Mapping[str, object]]] = {}
    """The number of runs that have a section, by the section itself, which is held."""
    for run in runs:
        total += 1
        for section in run.sections:
            count, values = sections.get(id(section.values), (0, section.values))
            sections[id(section.values)] = count + 1, values
    seen: dict[str, tuple[int, set[str]]] = {}
    for count, values in sections.values():
        for name, value in values.items():
            known, texts = seen.get(name, (0, set()))
            seen[name] = known + count, texts | {as_text(value)}
    return sorted(name for name, (count, texts) in seen.items() if len(texts) > 1 or count < total)


def differences(runs: Sequence[RunSummary]) -> dict[str, Any]:
    """Return the values of the fields in which the configurations of some runs differ, one list for each run."""
    configs = [run.config for run in runs]
    every = {name for config in configs for name in config}
    fields = sorted(name for name in every if len({as_text(config.get(name, UNKNOWN)) for config in configs}) > 1)
    values = [[as_text(config[name]) if name in config else UNKNOWN for name in fields] for config in configs]
    return {"fields": fields, "total": len(every), "values": values}


class ViewOf(NamedTuple):
    """A filter, a field to group by and an order: one way to look at the runs."""

    filter: str
    group: str
    sort: str
    stars: str = ""
    """Not empty: the runs with a star alone."""


class Lines(NamedTuple):
    """The stretch of the list that a page shows, counted in lines: runs, and a line above each group."""

    first: int = 0
    number: int = 60


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

    def __init__(self, of: ViewOf, starred: Container[str] = ()) -> None:
        self._of, self._matches, self._starred = of, run_filter(of.filter), starred
        self._key, self._is_reversed = order_of(of.sort)
        self._entries: dict[str, tuple[str, Any]] = {}
        self._groups: list[tuple[str, list[str]]] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def take(self, key: str, run: RunSummary) -> None:
        """Bring one run up to date."""
        matches = (not self._of.stars or key in self._starred) and self._matches(run)
        entry = (label_of(run, self._of.group), self._key(run)) if matches else None
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

    def lines(self, of: Lines) -> tuple[list[str | tuple[str, list[str]]], list[int], list[int]]:
        """Return the lines of a stretch, a run by its key and a group by its label and its runs; and how many runs and
        how many groups have their lines before it, and after it."""
        items: list[str | tuple[str, list[str]]] = []
        before, after, at = [0, 0], [0, 0], 0
        last = of.first + of.number
        for label, keys in self.groups():
            if self._of.group:
                if of.first <= at < last:
                    items.append((label, keys))
                else:
                    (before if at < of.first else after)[1] += 1
                at += 1
            start, end = (min(max(line - at, 0), len(keys)) for line in (of.first, last))
            items += keys[start:end]
            before[0] += start
            after[0] += len(keys) - end
            at += len(keys)
        return items, before, after

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
