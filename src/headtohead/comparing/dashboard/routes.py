"""Which address shows what. Files are chosen among those that were found, never by a path that was sent."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from headtohead.comparing.dashboard.answers import REPORT_POLICY, Answer, as_file, as_json, refusal
from headtohead.comparing.dashboard.details import details, pictures, read_table, tables
from headtohead.comparing.dashboard.index import RunIndex
from headtohead.comparing.dashboard.inside import is_inside
from headtohead.comparing.dashboard.studies import report_of, studies
from headtohead.comparing.dashboard.tail import Place, Point, read_on
from headtohead.errors import UsageError

Query = Mapping[str, list[str]]
_PAGES = Path(str(files("headtohead.comparing.dashboard") / "pages"))
_THEME = Path(str(files("headtohead.comparing") / "theme.css"))
"""That of reports: an arm has one set of colours everywhere."""
_AXES = ("step", "tokens", "flops", "seconds")


class NotThereError(LookupError):
    """What was asked for is not there."""


class Routes:
    """All there is to ask for; every answer is to a GET."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.index = RunIndex(root)
        self._own = {"/": _PAGES / "page.html"}
        self._own |= {f"/{file.name}": file for file in _PAGES.iterdir() if file.suffix in (".js", ".css", ".svg")}
        self._own |= {"/theme.css": _THEME, "/plotly.js": _plotly()}
        self._asked: dict[str, Callable[[Query], Answer]] = {
            "/api/runs": self._runs,
            "/api/curves": self._curves,
            "/api/run": self._run,
            "/api/table": self._table,
            "/api/studies": lambda _: as_json(studies(self.index.root, self.index.records())),
            "/picture": self._picture,
            "/report": self._report,
        }

    def answer(self, address: str) -> Answer:
        """To the path and query of a request."""
        path, _, query = address.partition("?")
        if path in self._own:
            return as_file(self._own[path])
        asked = self._asked.get(path)
        if asked is None:
            return refusal(404, "there is nothing here: open / for the page")
        try:
            return asked(parse_qs(query, keep_blank_values=True, errors="replace"))
        except (NotThereError, FileNotFoundError) as error:
            return refusal(404, str(error) if isinstance(error, NotThereError) else "the file is gone")
        except (OSError, UsageError, csv.Error) as error:
            return refusal(404, f"a file of it cannot be read: {error}")

    def _runs(self, query: Query) -> Answer:
        return as_json(self.index.changes(_one(query, "since", "")))

    def _curves(self, query: Query) -> Answer:
        """One metric of many runs, each from where the page has it: run=, file= and offset= side by side."""
        metric = _one(query, "metric")
        asked = zip(query.get("run", ()), query.get("file", ()), query.get("offset", ()), strict=False)
        return as_json({key: self._curve(key, metric, _place(file, offset)) for key, file, offset in asked})

    def _curve(self, key: str, metric: str, place: Place) -> dict[str, Any] | None:
        entry = self.index.entry(key)
        if entry is None or not is_inside(self.root, entry.folder.metrics_file.path):
            return None
        piece = read_on(entry.folder.metrics_file.path, place)
        # Numbers of files exceed what JavaScript counts exactly: they travel as text.
        told = {"file": str(piece.place.file), "offset": piece.place.offset, "anew": piece.anew}
        return {**told, **_columns(list(piece.points(metric)))}

    def _run(self, query: Query) -> Answer:
        entry = self._entry(query)
        return as_json(details(self.root, entry.folder.path, entry.record))

    def _table(self, query: Query) -> Answer:
        return as_json(read_table(self._chosen(query, tables)))

    def _picture(self, query: Query) -> Answer:
        return as_file(self._chosen(query, pictures))

    def _report(self, query: Query) -> Answer:
        name = _one(query, "study")
        file = report_of(self.root, name)
        if file is None:
            raise NotThereError(f"study {name} has no report: h2h study {name} writes it")
        return as_file(file, policy=REPORT_POLICY)

    def _entry(self, query: Query) -> Any:
        key = _one(query, "run")
        entry = self.index.entry(key)
        if entry is None:
            raise NotThereError(f"run={key} is no run below this folder")
        return entry

    def _chosen(self, query: Query, among: Callable[[Path, Path], dict[tuple[str, str], Path]]) -> Path:
        found = among(self.root, self._entry(query).folder.path)
        step, name = _one(query, "step"), _one(query, "name")
        if (step, name) not in found:
            raise NotThereError(f"this run has no {name} of {step}")
        return found[step, name]


def _columns(points: list[Point]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {axis: [getattr(point.progress, axis) for point in points] for axis in _AXES}
    return {**columns, "value": [point.value for point in points]}


def _one(query: Query, name: str, otherwise: str | None = None) -> str:
    values = query.get(name, [otherwise] if otherwise is not None else [])
    if not values:
        raise NotThereError(f"{name}= is missing")
    return values[0]


def _place(file: str, offset: str) -> Place:
    return Place(int(file), int(offset)) if file.isascii() and file.isdigit() and offset.isdigit() else Place()


def _plotly() -> Path:
    """The script that the installed package brings along; importing the package would take longer."""
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise UsageError("the dashboard draws with plotly, which is not installed: pip install 'plotly>=6'")
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"
