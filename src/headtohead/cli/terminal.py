"""Write the commands' output: results to standard output, everything else to standard error."""

from __future__ import annotations

import copy
import errno
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

WIDTH_WHERE_UNKNOWN = 140
_NARROWEST = 20
_COMMAND = re.compile(r"`[^`]+`|\bh2h [a-z]+(?: [^\s,;]*[=/<>.-][^\s,;]*)*")
"""A command, which a reader copies: it stays on one line."""
_GLUE = "\0"
_UNSEEN = re.compile("(\x1b\\[[0-9;]*m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Colours, and the characters by which a text clears the screen, writes over other lines or turns what follows."""


class LostOutputError(Exception):
    """Standard output takes nothing more: its reader has gone, or its disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written: {error.strerror}")
        self.reader_has_gone = error.errno == errno.EPIPE


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LostOutputError(error) from error


def out(text: str, end: str = "\n") -> None:
    """Write data as it is; on a terminal, which obeys what it reads, with control characters written out."""
    with _writing():
        sys.stdout.write(_encodable((visible(text, sys.stdout) if sys.stdout.isatty() else text) + end, sys.stdout))


def visible(text: str, stream: TextIO) -> str:
    """Return the text with control characters written out: names, notes and errors may quote a stranger's file."""
    return _written_out(text, colours=stream.isatty())


def _written_out(text: str, *, colours: bool) -> str:
    return _UNSEEN.sub(lambda match: match[1] if match[1] and colours else ascii(match[0])[1:-1], text)


def _encodable(text: str, stream: TextIO) -> str:
    """Return the text with what the stream's encoding lacks written out, as standard error does by itself."""
    encoding: str | None = stream.encoding  # one in memory has none
    if encoding is None:
        return text
    try:
        text.encode(encoding, stream.errors or "strict")
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def say(text: str) -> None:
    """Write sentences of the result, in lines that fit the terminal."""
    out(folded(visible(text, sys.stdout), sys.stdout))


def note(text: str) -> None:
    """Write a remark, which is not worth ending a command for where it cannot be written."""
    try:
        sys.stderr.write(folded(visible(text, sys.stderr), sys.stderr) + "\n")
    except OSError:
        return


def error_line(text: str) -> None:
    """Write one sentence, its first word in red on a terminal."""
    first, *rest = folded(visible(f"error: {text}", sys.stderr), sys.stderr).split(" ", 1)
    try:
        sys.stderr.write(" ".join([paint(first, "31", sys.stderr), *rest]) + "\n")
    except OSError:
        return


def answer(question: str) -> str:
    """Return what is typed in answer to a question."""
    sys.stderr.write(visible(question, sys.stderr))
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def flush() -> None:
    """Write out what is still held back, so that a full disk is noticed here and not while Python ends."""
    with _writing():
        sys.stdout.flush()


def open_closed_streams() -> None:
    """Give streams that were closed at the start (`>&-`) the null device: else the next file that is opened gets their
    number, and whatever a library prints lands in it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


def drop_output() -> None:
    """Send what is still to be written to the null device, so that Python does not try again while it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def width(stream: TextIO) -> int | None:
    """COLUMNS where it is set, else the terminal's width; None for a file or a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return max(int(columns), _NARROWEST)
    return max(shutil.get_terminal_size().columns, _NARROWEST) if stream.isatty() else None


def folded(text: str, stream: TextIO, indent: int = 0) -> str:
    """Return the text in lines that fit; no word is broken, and no command that a reader may want to copy."""
    room = width(stream)
    if room is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _lines(line, max(room - indent, _NARROWEST)))


def _lines(line: str, room: int) -> list[str]:
    if len(line) <= room:
        return [line]
    glued = _COMMAND.sub(lambda match: match.group().replace(" ", _GLUE), line)
    first = line[: len(line) - len(line.lstrip())]
    lines = textwrap.wrap(glued, room, break_long_words=False, break_on_hyphens=False, subsequent_indent=first)
    return [each.replace(_GLUE, " ") for each in lines]


def show_table(table: RenderableType) -> None:
    """Show a table as wide as the terminal; wide enough for it where the output goes to a file."""
    with _writing():
        _console(width(sys.stdout) or WIDTH_WHERE_UNKNOWN).print(table)


class _VisibleStream:
    """Standard output for tables, whose cells may quote a stranger's file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = stream.encoding
        self.colours = stream.isatty()

    def write(self, text: str) -> int:
        return self._stream.write(_encodable(_written_out(text, colours=self.colours), self._stream))

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()


def _console(columns: int) -> Console:
    from rich.console import Console, RenderResult
    from rich.table import Table

    class Whole(Console):
        """A console that shows a table in several where one would break words."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> RenderResult:  # type: ignore[override]
            chosen = options or self.options
            if not isinstance(renderable, Table):
                yield from super().render(renderable, chosen)
                return
            for part in _parts(renderable, self, chosen):
                yield from super().render(part, chosen)

    written_to = _VisibleStream(sys.stdout)
    console = Whole(width=columns, file=cast(TextIO, written_to))
    written_to.colours = console.is_terminal  # which FORCE_COLOR makes of a pipe too
    return console


def _parts(table: Table, console: Console, options: ConsoleOptions) -> list[Table]:
    """Return the table, or tables of some of its columns each, all beginning with the first."""
    from rich.measure import Measurement

    wide = options.update(max_width=10_000)

    def needed(index: int) -> int:
        alone: Measurement = Measurement.get(console, wide, _with_columns(table, [index]))
        column = table.columns[index]
        if column.no_wrap:
            return alone.maximum
        broken = max(column.min_width or 0, options.max_width // 2)  # a longer word leaves no room beside it
        return min(alone.minimum, broken) if column.overflow == "fold" else alone.minimum

    def fits(columns: list[int]) -> bool:
        shared_borders = len(columns) - 1 if table.box else 0
        return sum(map(needed, columns)) - shared_borders <= options.max_width

    every = list(range(len(table.columns)))
    if fits(every):
        return [table]
    parts = [[0]]
    for column in every[1:]:
        if len(parts[-1]) > 1 and not fits([*parts[-1], column]):
            parts.append([0])
        parts[-1].append(column)
    tables = [_with_columns(table, columns) for columns in parts]
    for part in tables[1:]:
        part.title = None
    for part in tables[:-1]:
        part.caption = None
    return tables


def _with_columns(table: Table, columns: list[int]) -> Table:
    part = copy.copy(table)
    part.columns = [copy.copy(table.columns[column]) for column in columns]
    for index, column in enumerate(part.columns):
        column._index = index
    return part


def paint(text: str, code: str, stream: TextIO | None = None) -> str:
    """Colour on a terminal that wants it (https://no-color.org), by escape codes: importing rich costs too much."""
    if not (stream or sys.stdout).isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{code}m{text}\x1b[0m"
