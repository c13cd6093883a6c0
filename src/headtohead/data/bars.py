"""One line that moves while long work on data is done: what, how much of how much, how fast."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[int], None]
"""Told how much more is done."""
_LOOKS = 400
"""How often a bar moves at most: work may be told of in millions of small pieces."""
_drawn = threading.Lock()
"""Of bars within bars only the outer one is drawn."""


@contextmanager
def bar(doing: str, size: int, unit: str = "rows", *, then: str | None = None) -> Iterator[Tell]:
    """It moves by what is told to be done, where somebody looks. `then` is what is done after all of it, for as long as
    that takes."""
    if not sys.stderr.isatty() or not _drawn.acquire(blocking=False):
        yield lambda _: None
        return
    try:
        with _shown(doing, size, unit, then) as tell:
            yield tell
    finally:
        _drawn.release()


@contextmanager
def _shown(doing: str, size: int, unit: str, then: str | None) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[facts]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    done, told, started = 0, 0, time.perf_counter()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(doing, total=size, facts=f"{short(0)}/{short(size)} {unit}")

        def tell(more: int) -> None:
            nonlocal done, told
            done += more
            if done - told < size / _LOOKS and done < size:
                return
            told = done
            is_over = then is not None and done >= size
            rate = done / max(time.perf_counter() - started, 1e-3)
            facts = f"{short(done)}/{short(size)} {unit}" + ("" if is_over else f", {short(rate)}/s")
            words = f"{doing}: {then}" if is_over else doing
            shown.update(task, completed=done, facts=facts, description=words)
            if is_over:
                shown.update(task, total=None)

        yield tell


def short(number: float) -> str:
    """12.3M, 4.5k, 678."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return f"{number:.0f}"
