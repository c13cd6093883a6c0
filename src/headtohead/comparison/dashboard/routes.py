"""Map addresses to answers, with the rules under which a browser may use them; among them notes, pictures and samples
of one run. Files are chosen among those that were found, never by a path from a request."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from headtohead.comparison.dashboard.curve_points import AXES, Stretch, curve_columns
from headtohead.comparison.dashboard.live_runs import LiveRuns
from headtohead.comparison.dashboard.run_view import Lines, Selection, ViewOf
from headtohead.comparison.dashboard.served_folder import files_below, folders_in, is_inside, mark_in
from headtohead.comparison.dashboard.study_list import report_of, studies
from headtohead.errors import UsageError
from headtohead.interpretability.layer_words import layer_words
from headtohead.records.metrics_tail import ReadPosition, read_on
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RECORD, RunFolder

_MOST_ROWS = 200
_LONGEST, _MOST_READ = 4000, 2**24
"""Letters of one cell, and of a table that is read: one cell may be as long as a disk holds."""


def details(root: Path, folder: Path, record: RunRecord | None) -> dict[str, Any]:
    """All there is to choose from, and what a record says besides numbers."""
    data: dict[str, Any] = {
        "folder": str(folder),
        "output": output_of(root, folder) is not None,
        "pictures": (drawn := _by_step(pictures(root, folder))),
        "words": {name: layer_words(name) for names in drawn.values() for name in names},
        "tables": _by_step(tables(root, folder)),
    }
    if record is not None:
        data |= {
            "cannot": record.cannot,
            "wandb": record.wandb.url,
            "timing": {"started": record.timing.started, "finished": record.timing.finished},
            "starts": record.timing.starts,
            "device": record.environment.device.get("name"),
            "commit": record.environment.git_commit,
        }
    return data


def output_of(root: Path, folder: Path) -> Path | None:
    """Return the file with what the run printed, below the folder that is served."""
    file = RunFolder(folder).output
    return file if file is not None and is_inside(root, file) else None


def pictures(root: Path, folder: Path) -> dict[tuple[str, str], Path]:
    """Find attention/STEP/NAME.png, and the matrices beside the tables."""
    return _files(root, folder / "attention", ".png") | _files(root, folder / "tables", ".png")


def tables(root: Path, folder: Path) -> dict[tuple[str, str], Path]:
    """Find tables/STEP/NAME.csv."""
    return _files(root, folder / "tables", ".csv")


def read_table(path: Path) -> dict[str, Any]:
    """Return its first rows; long texts cut."""
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        text = file.read(_MOST_READ + 1)
    lines = csv.reader(io.StringIO(text[:_MOST_READ], newline=""))
    rows = [[cell[:_LONGEST] for cell in row] for _, row in zip(range(_MOST_ROWS + 2), lines, strict=False)]
    columns, *others = rows or [[]]
    has_more = len(others) > _MOST_ROWS or len(text) > _MOST_READ
    return {"columns": columns, "rows": others[:_MOST_ROWS], "more": has_more}


def _files(root: Path, above: Path, suffix: str) -> dict[tuple[str, str], Path]:
    return {
        (step.name, file.stem): file for step in folders_in(root, above) for file in files_below(root, step, (suffix,))
    }


def _by_step(files: dict[tuple[str, str], Path]) -> dict[str, list[str]]:
    by_step: dict[str, list[str]] = {}
    for step, name in files:
        by_step.setdefault(step, []).append(name)
    return by_step


Query = Mapping[str, list[str]]
_PAGES = Path(__file__).parent / "pages"
_SHARED = Path(__file__).parents[1]
"""That of reports: an arm has one set of colours everywhere."""
_SHOWN, _MOST_SHOWN = 60, 500
"""Lines of the list where the page does not say how many it shows, and at most."""
_MOST_OUTPUT = 2**18
"""Bytes from the end of what a run printed."""
_MOST_DIGITS = 20
_MOST, _MOST_METRICS = 400, 100
"""Runs, and metrics of each, in one question."""


class NotFoundError(LookupError):
    """The requested thing does not exist."""


class DashboardRoutes:
    """All there is to ask for by GET, and the one thing that a page may send."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = LiveRuns(root)
        self._studies: tuple[int, Sequence[RunRecord]] = (0, ())
        self._own = {"/": _PAGES / "page.html"}
        self._own |= {f"/{file.name}": file for file in _PAGES.iterdir() if file.suffix in (".js", ".css", ".svg")}
        self._own |= {f"/{name}": _SHARED / name for name in ("theme.css", "page_kit.js")}
        self._requested: dict[str, Callable[[Query], HttpResponse]] = {
            "/api/runs": self._runs,
            "/api/start": lambda query: as_json(self.runs.start(_view_of(query))),
            "/api/rows": lambda query: as_json(self.runs.rows(query.get("run", ())[:_MOST], _one(query, "group", ""))),
            "/api/group": lambda query: as_json(self.runs.keys_of(_view_of(query), _one(query, "label"))),
            "/api/between": lambda query: as_json(
                self.runs.keys_between(_view_of(query), _one(query, "run"), _one(query, "other"))
            ),
            "/api/fields": lambda _: as_json(self.runs.fields()),
            "/api/differences": lambda query: as_json(self.runs.differences(query.get("run", ())[:_MOST])),
            "/api/settings": lambda query: as_json(
                self.runs.settings(query.get("run", ())[:_MOST], query.get("field", ()))
            ),
            "/api/config": lambda query: as_json(self.runs.config(_one(query, "run"))),
            "/api/curves": self._curves,
            "/api/run": self._run,
            "/api/table": self._table,
            "/api/studies": lambda _: as_json(
                studies(self.runs.root, self._study_records(), self.runs.runs_of_studies())
            ),
            "/picture": self._picture,
            "/output": self._output,
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
        except (NotFoundError, FileNotFoundError) as error:
            return refusal(404, str(error) if isinstance(error, NotFoundError) else "the file is gone")
        except (OSError, UsageError, csv.Error) as error:
            return refusal(404, f"a file of it cannot be read: {error}")

    def take(self, path: str, body: bytes) -> HttpResponse:
        """Answer what a page sends: the star and the note of a run are all that it may write."""
        if path != "/api/mark":
            return refusal(404, "nothing can be sent there: /api/mark takes the star and the note of a run")
        try:
            key, mark = mark_in(body)
            is_there = self.runs.mark(key, mark)
        except (OSError, UsageError) as error:
            return refusal(400, f"the mark is not saved: {error}")
        return as_json(mark._asdict()) if is_there else refusal(404, "no such run below this folder")

    def _runs(self, query: Query) -> HttpResponse:
        """The list as far as the page shows it, and the runs that are selected; nothing where the page has it."""
        shown = _whole(_one(query, "shown", ""))
        lines = Lines(_whole(_one(query, "first", "")) or 0, _SHOWN if shown is None else min(shown, _MOST_SHOWN))
        selection = Selection(query.get("selected", ()))
        return as_json(self.runs.page(_view_of(query), lines, selection, _one(query, "known", "")))

    def _study_records(self) -> Sequence[RunRecord]:
        """The records that tell which verdicts are out of date, read again when some run has changed."""
        version = self.runs.version
        if self._studies[0] != version:
            self._studies = version, self.runs.records(self.root / "studies")
        return self._studies[1]

    def _curves(self, query: Query) -> HttpResponse:
        """Metrics of many runs, each run from where the page has them: run=, file= and offset= side by side; of each
        metric= as many points as most= says, and only those of a stretch of axis= between from= and to=."""
        _one(query, "metric")
        metrics, most = query["metric"][:_MOST_METRICS], _whole(_one(query, "most", "")) or 0
        low, high = (_number(_one(query, name, "")) for name in ("from", "to"))
        axis = _one(query, "axis", AXES[0])
        within = None if low is None or high is None or axis not in AXES else Stretch(axis, low, high)
        positions = zip(query.get("run", ()), query.get("file", ()), query.get("offset", ()), strict=False)
        return as_json(
            {
                key: self._curves_of(key, metrics, _read_position(file, offset), most, within)
                for key, file, offset in positions
            }
        )

    def _curves_of(
        self, key: str, metrics: Sequence[str], position: ReadPosition, most: int, within: Stretch | None
    ) -> dict[str, Any] | None:
        """Return what was added to some metrics of a run: its file is read once for all of them."""
        folder = self.runs.folder(key)
        if folder is None or not is_inside(self.root, folder.metrics_file.path):
            return None
        piece = read_on(folder.metrics_file.path, position)
        # Numbers of files exceed what JavaScript counts exactly: they travel as text.
        data = {"file": str(piece.position.file), "offset": piece.position.offset, "restarted": piece.restarted}
        return {**data, "curves": {name: curve_columns(piece, name, most, within) for name in metrics}}

    def _run(self, query: Query) -> HttpResponse:
        folder = self._folder(query)
        record = None
        with suppress(OSError, UsageError):
            if is_inside(self.root, folder.path / RECORD):
                record = folder.read_record_as_written()
        return as_json(details(self.root, folder.path, record))

    def _table(self, query: Query) -> HttpResponse:
        return as_json(read_table(self._chosen(query, tables)))

    def _picture(self, query: Query) -> HttpResponse:
        return as_file(self._chosen(query, pictures))

    def _output(self, query: Query) -> HttpResponse:
        """The end of what a run printed, as text."""
        folder = self._folder(query)
        file = output_of(self.root, folder.path)
        if file is None:
            raise NotFoundError("this run has no output here: it was started by itself, and wrote to its terminal")
        with file.open("rb") as content:
            content.seek(max(0, file.stat().st_size - _MOST_OUTPUT))
            return HttpResponse(content.read(), "text/plain; charset=utf-8")

    def _report(self, query: Query) -> HttpResponse:
        name = _one(query, "study")
        file = report_of(self.root, name)
        if file is None:
            raise NotFoundError(f"study {name} has no report: h2h study {name} writes it")
        return as_file(file, policy=REPORT_POLICY)

    def _folder(self, query: Query) -> RunFolder:
        key = _one(query, "run")
        folder = self.runs.folder(key)
        if folder is None:
            raise NotFoundError(f"run={key} is not a run below this folder")
        return folder

    def _chosen(self, query: Query, among: Callable[[Path, Path], dict[tuple[str, str], Path]]) -> Path:
        result = among(self.root, self._folder(query).path)
        step, name = _one(query, "step"), _one(query, "name")
        if (step, name) not in result:
            raise NotFoundError(f"this run has no {name} of {step}")
        return result[step, name]


def _view_of(query: Query) -> ViewOf:
    return ViewOf(*(_one(query, name, "") for name in ViewOf._fields))


def _one(query: Query, name: str, otherwise: str | None = None) -> str:
    values = query.get(name, [otherwise] if otherwise is not None else [])
    if not values:
        raise NotFoundError(f"{name}= is missing")
    return values[0]


def _read_position(file: str, offset: str) -> ReadPosition:
    number, position = _whole(file), _whole(offset)
    return ReadPosition() if number is None or position is None else ReadPosition(number, position)


def _number(text: str) -> float | None:
    """Return the number that an address gives, None where it gives none."""
    with suppress(ValueError):
        value = float(text)
        return value if math.isfinite(value) else None
    return None


def _whole(text: str) -> int | None:
    """Return the whole number that an address gives, None where it gives none that a file could have."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


# Styles inline: Plotly sets them on its own elements. Scripts come from this server's files alone.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A report holds its own scripts; without an origin of its own it can reach neither this server nor any other.
REPORT_POLICY = (
    "sandbox allow-scripts allow-modals allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


@dataclass(frozen=True)
class HttpResponse:
    """Status, bytes and the headers of their own."""

    body: bytes
    kind: str
    status: int = 200
    policy: str = PAGE_POLICY
    tag: str | None = None
    """The tag of a file: a browser that has this one already is told so."""
    headers: dict[str, str] = field(default_factory=dict)


def as_json(value: Any) -> HttpResponse:
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return HttpResponse(text.encode("utf-8", "surrogatepass"), "application/json")


def as_file(path: Path, *, policy: str = PAGE_POLICY) -> HttpResponse:
    """Return the file, under a tag that changes with it."""
    facts = path.stat()
    tag = hashlib.sha256(f"{facts.st_ino} {facts.st_mtime_ns} {facts.st_size}".encode()).hexdigest()[:20]
    return HttpResponse(path.read_bytes(), _KINDS[path.suffix], policy=policy, tag=f'"{tag}"')


def refusal(status: int, sentence: str) -> HttpResponse:
    return HttpResponse(f"{sentence}\n".encode(), "text/plain; charset=utf-8", status)
