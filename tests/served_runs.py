"""Folders of runs for the dashboard's tests, and a dashboard that serves them until the test is over."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from browser import Browser
from headtohead.comparison.dashboard.server import Dashboard
from headtohead.records.metrics_tail import MetricsChunk, ReadPosition, read_on
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from waiting import PATIENCE, until

CONFIG = {"model": {"d_model": 64}, "trainer": {"max_steps": 100}, "choices": {"model/mixer": "gru"}}
LINES = "(document.querySelector('.chart[data-metric=\"train/loss\"] .figure')?.series ?? [])"
POINTS = f"Math.max(0, ...{LINES}.map((line) => line.x.length))"


def written_run(outputs: Path, *, name: str = "tiny", steps: int = 3, **fields: Any) -> RunFolder:
    """A run of this process, `running` where nothing else is said."""
    folder = RunFolder.create(outputs, name=name, group="some")
    folder.write_record(RunRecord(**{"id": folder.id, "name": name, "group": "some", "config": CONFIG, **fields}))
    train(folder, range(1, steps + 1))
    return folder


def train(folder: RunFolder, steps: range) -> None:
    for step in steps:
        folder.log(Progress(step, 0, 10 * step, 1e6 * step, 0.5 * step), {"train/loss": 4.0 / step})


def noted_pieces(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, int]]:
    """The pieces of metrics files that the dashboard reads for curves from now on: each file, and how many bytes."""
    pieces: list[tuple[Path, int]] = []

    def read_and_note(path: Path, position: ReadPosition) -> MetricsChunk:
        piece = read_on(path, position)
        pieces.append((path, len(piece.text)))
        return piece

    monkeypatch.setattr("headtohead.comparison.dashboard.routes.read_on", read_and_note)
    return pieces


@contextmanager
def served(root: Path) -> Iterator[Dashboard]:
    with Dashboard(root) as dashboard:
        thread = threading.Thread(target=dashboard.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield dashboard
        finally:
            dashboard.shutdown()
            thread.join()


def requested(
    dashboard: Dashboard,
    path: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: str | None = None,
) -> tuple[http.client.HTTPResponse, bytes]:
    """The answer to a path that is sent as it stands, and its body."""
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.server_port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def message(dashboard: Dashboard, path: str, **query: str | list[str]) -> Any:
    answer, body = requested(dashboard, f"{path}?{urlencode(query, doseq=True)}")
    assert answer.status == 200, body
    return json.loads(body)


def shown(browser: Browser, script: str) -> Any:
    """The value of the expression once it is true."""
    return until(lambda: browser.run(script), otherwise=lambda: f"never true: {script}; {browser.trouble}")


def go(browser: Browser, view: str) -> None:
    """Go to this view of the dashboard, and wait until it is drawn: the page before it may look the same, and reacts
    later; one that is still choosing its first runs may put its own view in the address once more."""
    target = json.dumps(view)
    is_there = f"(location.hash.slice(1) === {target} || void (location.hash = {target}))"
    shown(browser, f"{is_there} && document.documentElement.dataset.drawn === {target}")


def visit(browser: Browser, dashboard: Dashboard, **view: Any) -> None:
    """A page loaded again, not only another place on it."""
    browser.open("about:blank")
    browser.open(f"{dashboard.address}#" + "&".join(f"{name}={value}" for name, value in view.items()))


def assert_quiet(browser: Browser, dashboard: Dashboard) -> None:
    assert browser.trouble == []
    external = [
        request for request in browser.requests if not request.startswith((dashboard.address, "data:", "blob:"))
    ]
    assert external in ([], ["about:blank"])
