"""Every run below a folder as it is now: a page asks for the lines that it shows, and is sent what changed of them."""

from __future__ import annotations

import secrets
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headtohead.comparison.arm_colours import colour_slots
from headtohead.comparison.dashboard.run_view import (
    GROUPS,
    Lines,
    RunView,
    Selection,
    ViewOf,
    differences,
    differing_fields,
    label_of,
    row_facts,
)
from headtohead.comparison.dashboard.served_folder import Mark, Marks, is_inside
from headtohead.comparison.study_board import registered_cells
from headtohead.records.index.run_index import FileState, IndexWork, RunIndex
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import DIED, RECORD, RunFolder
from headtohead.records.run_query import as_text
from headtohead.records.run_summary import UNREADABLE, RunSummary, unreadable

MOST_DRAWN = 300
"""Runs whose curves, results and the like are drawn at once."""
_START_WITH = 40
"""Runs that a page shows which nobody has touched."""
_VIEWS = 8
"""Ways to look at the runs that are held at once: those of the pages that are open."""
_SHORTEST = 0.5
"""Seconds between two looks at the disk, however many pages ask."""
_SHARE = 10
"""The rest after each look, in multiples of the time that it took: thousands of runs cost a tenth of a core at most."""
_STUDIES = "studies/"
_OUTSIDE = f"{RECORD} is a link that leads out of the folder: it is not read"


class LiveRuns:
    """May be asked by many threads at once."""

    def __init__(self, root: Path, *, shortest: float = _SHORTEST, share: float = _SHARE) -> None:
        self.root = root.resolve()
        self._shortest, self._share = shortest, share
        self._lock = threading.Lock()
        self._name = secrets.token_hex(4)  # an answer of another process says nothing about this one's versions
        self._index: RunIndex | None = None
        self._version, self._next = 0, 0.0
        self._seen: dict[str, tuple[str, FileState]] = {}
        """The runs seen, by key (the path below the folder): the run folder, and what is known of its record."""
        self._since: dict[str, int] = {}
        """The version at which a run became what it is, by key."""
        self._running: dict[str, tuple[str, int]] = {}
        """The runs that were running when their records were written: what they are now, and a checksum of how far they
        are."""
        self._num_live = 0
        self._arms: dict[str, set[str]] = {}
        """The arms of each study, which share out the colours whether or not they are shown."""
        self._marks = Marks(self.root)
        self._views: dict[ViewOf, RunView] = {}

    def close(self) -> None:
        with self._lock:
            if self._index is not None:
                self._index.close()

    def page(self, of: ViewOf, lines: Lines, selection: Selection, known: str) -> dict[str, Any]:
        """Return some lines of the list, and the runs that are drawn; `known` is the version that the page has of the
        same lines, which are not sent again."""
        with self._viewed(of) as view:
            now = f"{self._name}.{self._version}"
            if known == now:
                return {"now": now, "same": True}
            count, drawn = view.selected(selection, MOST_DRAWN)
            items, before, after = view.lines(lines)
            return {
                "now": now, "total": len(self._seen), "matching": len(view), "running": self._num_live,
                "items": [self._item(item, selection) for item in items], "before": before, "after": after,
                "count": count, "drawn": [[key, self._since_of(key)] for key in drawn],
                "slots": self._slots(of, drawn),
            }  # fmt: skip

    def start(self, of: ViewOf) -> list[str]:
        """Return what a page selects that nobody has touched: everything, or the first run and those of its study."""
        with self._viewed(of) as view:
            keys = list(view.keys())
            if len(keys) <= _START_WITH:
                return ["*"]
            mates, first = [], None
            for key, run in zip(keys, self._summaries(keys), strict=True):
                first = first or run
                if (run.group, run.study) == (first.group, first.study):
                    mates.append(key)
                if len(mates) == _START_WITH:
                    break
            return mates

    def rows(self, keys: Sequence[str], group: str) -> dict[str, Any]:
        """Return what the page shows of these runs; what is not a run below the folder is not there."""
        with self._fresh():
            known = self._known(keys)
            tails = self._opened().tails.read([self._seen[key][0] for key in known])
            rows = {}
            for key, run in zip(known, self._summaries(known), strict=True):
                if run.status != UNREADABLE:
                    run.latest = tails[run.path].latest
                rows[key] = {**row_facts(run, group), **self._marks[key]._asdict(), "version": self._since_of(key)}
            return rows

    def mark(self, key: str, mark: Mark) -> bool:
        """Set what a reader says of a run, and return whether there is such a run."""
        with self._fresh():
            if key not in self._seen:
                return False
            self._marks.put(key, mark)
            self._version += 1
            self._since[key] = self._version
            for run in self._summaries([key]):
                for view in self._views.values():
                    view.take(key, run)
            return True

    def settings(self, keys: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return some fields of the configurations of some runs, as texts."""
        with self._fresh():
            known = self._known(keys)
            return {
                key: {name: as_text(value) for name in names if (value := run.setting(name)) is not None}
                for key, run in zip(known, self._summaries(known), strict=True)
            }

    def config(self, key: str) -> dict[str, str]:
        """Return the whole configuration of a run, as texts by dotted names."""
        with self._fresh():
            return {
                name: as_text(value)
                for run in self._summaries(self._known([key]))
                for name, value in run.config.items()
            }

    def keys_of(self, of: ViewOf, label: str) -> list[str]:
        """Return the runs of one group, as many as can be drawn."""
        with self._viewed(of) as view:
            return next((keys[:MOST_DRAWN] for own, keys in view.groups() if own == label), [])

    def keys_between(self, of: ViewOf, one: str, other: str) -> list[str]:
        """Return the runs of the list from one to the other, both included, as many as can be drawn."""
        with self._viewed(of) as view:
            keys = list(view.keys())
            if one not in keys or other not in keys:
                return []
            first, last = sorted((keys.index(one), keys.index(other)))
            return keys[first : last + 1][:MOST_DRAWN]

    def fields(self) -> list[str]:
        """Return the names to group by: those of every run, and those in which configurations differ."""
        with self._fresh():
            return [*GROUPS, *differing_fields(self._summaries(list(self._seen)))]

    def differences(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return in what the configurations of these runs differ."""
        with self._fresh():
            known = self._known(keys)
            return {"runs": known, **differences(list(self._summaries(known)))}

    def folder(self, key: str) -> RunFolder | None:
        """Return a run that was found below the folder; None for any other text."""
        with self._fresh():
            return RunFolder(Path(self._seen[key][0])) if key in self._seen else None

    def records(self, below: Path) -> list[RunRecord]:
        """Return the records in a folder that can be read."""
        with self._fresh():
            return [record for record in self._opened().records(below) if isinstance(record, RunRecord)]

    def runs_of_studies(self) -> dict[str, list[RunSummary]]:
        """Return the runs below studies/NAME, by that name."""
        with self._fresh():
            keys = [key for key in self._seen if key.startswith(_STUDIES)]
            runs: dict[str, list[RunSummary]] = {}
            for key, run in zip(keys, self._summaries(keys), strict=True):
                runs.setdefault(key.split("/")[1], []).append(run)
            return runs

    @property
    def work(self) -> IndexWork:
        """Return what was read so far, for those who count."""
        return self._opened().work

    @property
    def version(self) -> int:
        """Return the number of what is known: another one means that some run changed."""
        with self._fresh():
            return self._version

    @contextmanager
    def _fresh(self) -> Iterator[None]:
        """Hold the lock, with the disk looked at: all that a question about some runs takes."""
        with self._lock:
            self._refresh()
            yield

    @contextmanager
    def _viewed(self, of: ViewOf) -> Iterator[RunView]:
        """Hold the lock, with the disk looked at and the view brought up to date; a new view goes through every run."""
        with self._lock:
            view = self._views.pop(of, None)
            is_new = view is None
            view = self._views[of] = RunView(of, self._marks.starred) if view is None else view
            while len(self._views) > _VIEWS:
                del self._views[next(iter(self._views))]
            has_passed = self._refresh()
            if is_new and not has_passed:
                keys = list(self._seen)
                for key, run in zip(keys, self._summaries(keys), strict=True):
                    view.take(key, run)
            yield view

    def _slots(self, of: ViewOf, drawn: Sequence[str]) -> dict[str, int]:
        """Return the colours of the groups that are drawn. Arms share them out among all arms of their studies, as
        they do in a report; runs without groups, and groups of another kind, among those that are drawn."""
        if not of.group:
            return colour_slots(drawn)
        labels, others = set(), set()
        for run in self._summaries(drawn):
            labels.add(label_of(run, of.group))
            others |= self._arms.get(run.study or "", set()) if of.group == "arm" else set()
        slots = colour_slots(labels | others)
        return {label: slots[label] for label in labels}

    def _take_arm(self, key: str, study: str, arm: str) -> None:
        """Note the arm of a run, and with the first one of a study all that the study has registered."""
        if study not in self._arms:
            folder = self.root / Path(*Path(key).parts[:2])
            self._arms[study] = set(registered_cells(folder)[0]) if key.startswith(_STUDIES) else set()
        self._arms[study].add(arm)

    def _opened(self) -> RunIndex:
        self._index = self._index or RunIndex()
        return self._index

    def _known(self, keys: Sequence[str]) -> list[str]:
        return [key for key in dict.fromkeys(keys) if key in self._seen]

    def _since_of(self, key: str) -> int:
        return self._since.get(key, 1)

    def _refresh(self) -> bool:
        """Look at the disk if it is time to, and return whether every run was gone through."""
        start = time.monotonic()
        if start < self._next:
            return False
        length = len(f"{self.root}/")
        seen = {path[length:] or ".": (path, state) for path, state in self._opened().look(self.root)}
        is_first, gone = self._version == 0, self._seen.keys() - seen.keys()
        changed = {key for key, now in seen.items() if self._seen.get(key) != now}
        self._seen = seen
        for key in gone:
            self._since.pop(key, None)
            self._running.pop(key, None)
        for view in self._views.values():
            view.drop(gone)
        news = self._note(changed)
        if gone or news or is_first:
            self._version += 1
            self._since.update({} if is_first else dict.fromkeys(news, self._version))
        self._num_live = sum(status == "running" for status, _ in self._running.values())
        end = time.monotonic()
        self._next = end + max(self._shortest, self._share * (end - start))
        return is_first

    def _note(self, changed: set[str]) -> list[str]:
        """Bring the views up to date with runs that changed, or train, and return those of which something is new."""
        looked_at, news = list(changed | self._running.keys()), []
        for key, run in zip(looked_at, self._summaries(looked_at), strict=True):
            before = self._running.pop(key, None)
            if run.status == "running" or run.reason == DIED:
                now = (run.status, zlib.crc32(repr((run.progress, run.reason)).encode()))
                self._running[key] = now
                if key not in changed and before == now:
                    continue
            news.append(key)
            if run.study is not None:
                self._take_arm(key, run.study, run.arm)
            for view in self._views.values():
                view.take(key, run)
        return news

    def _summaries(self, keys: Sequence[str]) -> Iterator[RunSummary]:
        """Yield these runs; the latest numbers of those that do not train are read when somebody asks for them."""
        index = self._opened()
        seen = [self._seen[key] for key in keys]
        for (_, state), run in zip(seen, index.summaries_of(seen), strict=True):
            if state.is_link and not is_inside(self.root, Path(run.path) / RECORD):
                yield unreadable(run.path, _OUTSIDE)
                continue
            if not run.latest:
                run.latest = LatestNumbers(index, run.path)
            yield run

    def _item(self, item: str | tuple[str, list[str]], selection: Selection) -> list[Any]:
        """Return a line of the list: a run and its version, or a group's label, its size, how many are selected."""
        if isinstance(item, str):
            return [item, self._since_of(item)]
        label, keys = item
        return [label, len(keys), sum(key in selection for key in keys)]


class LatestNumbers(Mapping[str, float | None]):
    """The last logged value of each metric of a run, read when the first is requested."""

    def __init__(self, index: RunIndex, path: str) -> None:
        self._index, self._path = index, path
        self._values: Mapping[str, float | None] | None = None

    def __getitem__(self, name: str) -> float | None:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> Mapping[str, float | None]:
        if self._values is None:
            self._values = self._index.tails.read([self._path])[self._path].latest
        return self._values
