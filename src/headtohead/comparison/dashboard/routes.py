"""Map addresses to answers. Files are chosen among those that were found, never by a path from a request."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from headtohead.comparison.dashboard.metrics_tail import LoggedPoint, ReadPosition, read_on
from headtohead.comparison.dashboard.responses import REPORT_POLICY, HttpResponse, as_file, as_json, refusal
from headtohead.comparison.dashboard.run_details import details, pictures, read_table, tables
from headtohead.comparison.dashboard.run_index import RunIndex, is_inside
from headtohead.comparison.dashboard.study_list import report_of, studies
from headtohead.errors import UsageError

Query = Mapping[str, list[str]]
_PAGES = Path(str(files("headtohead.comparison.dashboard") / "pages"))
_SHARED = Path(str(files("headtohead.comparison")))
"""That of reports: an arm has one set of colours everywhere."""
_AXES = ("step", "tokens", "flops", "seconds")


class NotThereError(LookupError):
    """The requested thing does not exist."""


class DashboardRoutes:
    """All there is to ask for; every answer is to a GET."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.index = RunIndex(root)
        self._own = {"/": _PAGES / "page.html"}
        self._own |= {f"/{file.name}": file for file in _PAGES.iterdir() if file.suffix in (".js", ".css", ".svg")}
        self._own |= {f"/{name}": _SHARED / name for name in ("theme.css", "page_kit.js")} | {"/plotly.js": _plotly()}
        self._requested: dict[str, Callable[[Query], HttpResponse]] = {
            "/api/runs": self._runs,
            "/api/curves": self._curves,
            "/api/run": self._run,
            "/api/table": self._table,
            "/api/studies": lambda _: as_json(studies(self.index.root, self.index.records())),
            "/picture": self._picture,
            "/report": self._report,
        }

    def answer(self, address: str) -> HttpResponse:
        """Answer the path and query of a request."""
        path, _, query = address.partition("?")
        if path in self._own:
            return as_file(self._own[path])
        handler = self._requested.get(path)
        if handler is None:
            return refusal(404, "no such page: open / for the start")
        try:
            return handler(parse_qs(query, keep_blank_values=True, errors="replace"))
        except (NotThereError, FileNotFoundError) as error:
            return refusal(404, str(error) if isinstance(error, NotThereError) else "the file is gone")
        except (OSError, UsageError, csv.Error) as error:
            return refusal(404, f"a file of it cannot be read: {error}")

    def _runs(self, query: Query) -> HttpResponse:
        return as_json(self.index.changes(_one(query, "since", "")))

    def _curves(self, query: Query) -> HttpResponse:
        """One metric of many runs, each from where the page has it: run=, file= and offset= side by side."""
        metric = _one(query, "metric")
        files = zip(query.get("run", ()), query.get("file", ()), query.get("offset", ()), strict=False)
        return as_json({key: self._curve(key, metric, _read_position(file, offset)) for key, file, offset in files})

    def _curve(self, key: str, metric: str, position: ReadPosition) -> dict[str, Any] | None:
        entry = self.index.entry(key)
        if entry is None or not is_inside(self.root, entry.folder.metrics_file.path):
            return None
        piece = read_on(entry.folder.metrics_file.path, position)
        # Numbers of files exceed what JavaScript counts exactly: they travel as text.
        data = {"file": str(piece.position.file), "offset": piece.position.offset, "anew": piece.anew}
        return {**data, **_columns(list(piece.points(metric)))}

    def _run(self, query: Query) -> HttpResponse:
        entry = self._entry(query)
        return as_json(details(self.root, entry.folder.path, entry.record))

    def _table(self, query: Query) -> HttpResponse:
        return as_json(read_table(self._chosen(query, tables)))

    def _picture(self, query: Query) -> HttpResponse:
        return as_file(self._chosen(query, pictures))

    def _report(self, query: Query) -> HttpResponse:
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
        result = among(self.root, self._entry(query).folder.path)
        step, name = _one(query, "step"), _one(query, "name")
        if (step, name) not in result:
            raise NotThereError(f"this run has no {name} of {step}")
        return result[step, name]


def _columns(points: list[LoggedPoint]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {axis: [getattr(point.progress, axis) for point in points] for axis in _AXES}
    return {**columns, "value": [point.value for point in points]}


def _one(query: Query, name: str, otherwise: str | None = None) -> str:
    values = query.get(name, [otherwise] if otherwise is not None else [])
    if not values:
        raise NotThereError(f"{name}= is missing")
    return values[0]


def _read_position(file: str, offset: str) -> ReadPosition:
    return (
        ReadPosition(int(file), int(offset))
        if file.isascii() and file.isdigit() and offset.isdigit()
        else ReadPosition()
    )


def _plotly() -> Path:
    """The script that the installed package brings along; importing the package would take longer."""
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise UsageError("the dashboard needs plotly, which is not installed: pip install 'plotly>=6'")
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"
