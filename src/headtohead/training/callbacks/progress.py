"""Show a run at the terminal: one line that is refreshed a few times a second."""

from __future__ import annotations

import logging
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from headtohead.data.cache.parallel_map import short
from headtohead.progress_lines import ProgressLines

REFRESH_SECONDS = 0.25
"""A refresh takes half a millisecond."""
_PACKAGE = "headtohead"
_NAME_WIDTH = 32


class ProgressLine:
    """Step, loss, tokens per second and the time left; without a terminal, a command's lines of what is counted."""

    def __init__(self, name: str, *, start: int, total: int, enabled: bool, unit: str | None = None) -> None:
        """Create a bar; if the unit of what is counted is given, the bar shows its rate instead of the facts from
        `update_text`."""
        self._next = 0.0
        self._start, self._unit, self._began = start, unit, time.perf_counter()
        self._facts = ""
        self._name = name
        self._lines = None if unit is None or not enabled else ProgressLines(total, unit)
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._log = ProgressLogHandler()
        if enabled and sys.stderr.isatty():
            self._bar = _bar()
            self._log.begin(self._bar.console)
            self._bar.start()
            self._task = self._bar.add_task(_shortened(name), total=total, completed=start, facts="")

    def update_text(self, *, loss: float, rate: float | None, unit: str) -> None:
        """Set the text that the next refresh shows beside the bar."""
        self._facts = f"loss {loss:.4f}" + (f"  {short(rate)} {unit}/s" if rate else "")

    def step(self, step: int) -> bool:
        """Count one more step, and return whether it was time for a refresh."""
        now = time.perf_counter()
        if now < self._next:
            return False
        self._next = now + REFRESH_SECONDS
        self._show(step)
        return True

    def close(self, step: int) -> None:
        self._show(step)
        if self._bar is not None:
            self._bar.stop()
            self._log.end()
            self._bar = None

    def _show(self, step: int) -> None:
        if self._lines is not None:
            self._lines.show(step, self._name)
        if self._bar is None:
            return
        if self._unit is not None:
            rate = (step - self._start) / max(time.perf_counter() - self._began, 1e-3)
            self._facts = self._unit + (f", {short(rate)}/s" if rate else "")
        self._bar.update(self._task, completed=step, facts=self._facts, refresh=True)


class ProgressLogHandler(logging.Handler):
    """The package's log is printed above a bar while that is drawn, instead of through it."""

    def begin(self, console: Console) -> None:
        self._console = console
        logger = logging.getLogger(_PACKAGE)
        self._before = logger.handlers, logger.propagate
        logger.handlers, logger.propagate = [self], False

    def end(self) -> None:
        logger = logging.getLogger(_PACKAGE)
        logger.handlers, logger.propagate = self._before

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(record.getMessage(), markup=False, highlight=False)


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[facts]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"
