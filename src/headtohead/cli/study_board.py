"""`h2h study NAME --watch`: the arms and seeds of a study as they are now, in 80 columns."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import wrap

from headtohead.cli.terminal import out
from headtohead.comparison.study_board import INTERRUPTED, MISSING, NOT_NEEDED, BoardCell, StudyBoard, read_board
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError
from headtohead.durations import duration
from headtohead.studies.definition.read_study_file import read_study

_WIDTH, _LONGEST = 80, 26
_EVERY = 2.0
"""Seconds between two looks."""
_SIGNS: dict[str, str] = {"finished": "✓", "diverged": "↯", MISSING: "·", NOT_NEEDED: " "}
_SIGNS |= dict.fromkeys(INTERRUPTED, "‖")
_OUTPUT_DIR = "output_dir"
_CLEAR = "\x1b[H\x1b[2J"


def watch(name: str, overrides: Sequence[str] = (), config_dir: str | None = None) -> int:
    """Show the board, on a terminal again and again until no run is left; an override says where its runs are."""
    for override in overrides:
        if key_of(override) != _OUTPUT_DIR:
            raise ConfigurationError(
                f"{override} would have no effect: --watch shows the runs that there are; leave it out, or say where "
                f"they are by {_OUTPUT_DIR}=DIR"
            )
    folder = _folder(name, _output_dir_of(name, overrides, config_dir))
    while True:
        board = read_board(folder)
        lines = list(board_lines(folder.name, board))
        if not sys.stdout.isatty():
            out("\n".join(lines))
            return 0
        out(_CLEAR + "\n".join(lines))
        sys.stdout.flush()
        if board.is_done:
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
    yield from wrap(
        f"{_cut(title, 20)}: {summary}" + (f", about {duration(left)} left" if left is not None else ""), _WIDTH
    )
    if board.trials:
        others_by_status = ", ".join(f"{number} {_words(status)}" for status, number in board.trials.items())
        yield from wrap(f"and for tuning or to start from: {others_by_status}", _WIDTH)
    name_width = min(_LONGEST, max((len(arm) for arm in board.arms), default=0))
    apart = max(5, *(len(str(seed)) + 1 for seed in board.seeds)) if board.seeds else 5
    wide = apart if name_width + 1 + apart * len(board.seeds) <= _WIDTH else 1
    a_line = (_WIDTH - name_width - 1) // wide
    for start in range(0, len(board.seeds), a_line):
        seeds = board.seeds[start : start + a_line]
        heads = "".join(f"{seed:>{wide}}" if wide > 1 else str(seed % 10) for seed in seeds)
        yield f"{'seed':<{name_width}} {heads}"
        for arm in board.arms:
            cells = "".join(f"{_sign(board.cells[arm, seed], wide):>{wide}}" for seed in seeds)
            yield f"{_cut(arm, name_width):<{name_width}} {cells}"
    yield "✓ finished, 42% or ▸ running, ↯ diverged, ‖ interrupted, ✗ failed, · not started"


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


def _words(status: str) -> str:
    return status.replace("_", " ")


def _output_dir_of(name: str, overrides: Sequence[str], config_dir: str | None) -> str:
    """Return the folder of all runs: that of the overrides, else of the study's file, if there still is one."""
    written: Sequence[str] = ()
    with suppress(ConfigurationError):
        written = read_study(name, (), config_dir).base
    folders = [override.partition("=")[2] for override in (*written, *overrides) if key_of(override) == _OUTPUT_DIR]
    return folders[-1] if folders else "outputs"


def _folder(name: str, output_dir: str) -> Path:
    """Return the study's folder: the path itself, or the one of that name below the folder of all runs."""
    typed = Path(name)
    folders = [typed, Path(output_dir) / "studies" / (typed.stem if typed.suffix in (".yaml", ".yml") else name)]
    for folder in folders:
        if (folder / "registrations").is_dir() or (folder / "runs").is_dir():
            return folder
    raise ConfigurationError(
        f"{os.fspath(folders[-1])} holds no study that has been started: h2h study {name} starts it, and --watch takes "
        "a study's folder too"
    )
