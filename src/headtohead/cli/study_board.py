"""`h2h study NAME --watch`: the arms and seeds of a study as they are now, in 80 columns."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from headtohead.cli.terminal import out
from headtohead.comparison.study_board import MISSING, NOT_NEEDED, NOT_STARTED, BoardCell, StudyBoard, read_board
from headtohead.config.errors import ConfigurationError
from headtohead.durations import duration

_WIDTH, _LONGEST = 80, 26
_EVERY = 2.0
"""Seconds between two looks."""
_SIGNS = {"finished": "✓", "diverged": "↯", MISSING: "·", NOT_NEEDED: " "}
_CLEAR = "\x1b[H\x1b[2J"


def watch(name: str) -> int:
    """Show the board, on a terminal again and again until no run is left."""
    folder = _folder(name)
    while True:
        board = read_board(folder)
        lines = list(board_lines(folder.name, board))
        if not sys.stdout.isatty():
            out("\n".join(lines))
            return 0
        out(_CLEAR + "\n".join(lines))
        sys.stdout.flush()
        if not (board.counts["running"] or board.counts[NOT_STARTED]):
            return 0
        try:
            time.sleep(_EVERY)
        except KeyboardInterrupt:
            return 0


def board_lines(title: str, board: StudyBoard) -> Iterator[str]:
    """Yield the board's lines, none longer than 80 letters."""
    counts, left = board.counts, board.seconds_left
    others = [f"{number} {what}" for what, number in counts.items() if number and what != "done"]
    summary = ", ".join([f"{counts['done']} of {board.num_runs} done", *others])
    yield f"{_cut(title, 20)}: {summary}" + (f", about {duration(left)} left" if left is not None else "")
    if board.trials:
        yield "and for tuning or to start from: " + ", ".join(f"{n} {status}" for status, n in board.trials.items())
    name_width = min(_LONGEST, max((len(arm) for arm in board.arms), default=0))
    wide = 5 if name_width + 5 * len(board.seeds) <= _WIDTH else 1
    a_line = (_WIDTH - name_width - 1) // wide
    for start in range(0, len(board.seeds), a_line):
        seeds = board.seeds[start : start + a_line]
        heads = "".join(f"{seed:>{wide}}" if wide > 1 else str(seed % 10) for seed in seeds)
        yield f"{'seed':<{name_width}} {heads}"
        for arm in board.arms:
            cells = "".join(f"{_sign(board.cells[arm, seed], wide):>{wide}}" for seed in seeds)
            yield f"{_cut(arm, name_width):<{name_width}} {cells}"
    yield "✓ finished, 42% or ▸ running, ↯ diverged, ✗ failed, · not started"


def _sign(cell: BoardCell, wide: int) -> str:
    if cell.status == "running":
        return f"{100 * cell.share:.0f}%" if wide > 1 else "▸"
    return _SIGNS.get(cell.status, "✗")


def _cut(text: str, longest: int) -> str:
    """Return the text, cut in its middle: names differ at their ends."""
    if len(text) <= longest:
        return text
    tail = longest // 2
    return f"{text[: longest - tail - 1]}…{text[-tail:]}"


def _folder(name: str) -> Path:
    """Return the study's folder: the path itself, or the one of that name below outputs/studies."""
    typed = Path(name)
    folders = [typed, Path("outputs") / "studies" / (typed.stem if typed.suffix in (".yaml", ".yml") else name)]
    for folder in folders:
        if (folder / "registrations").is_dir() or (folder / "runs").is_dir():
            return folder
    raise ConfigurationError(
        f"{os.fspath(folders[-1])} holds no study that has been started: h2h study {name} starts it, and --watch takes "
        "a study's folder too"
    )
