"""What the commands write: results to standard output, everything else to standard error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH_WHERE_UNKNOWN = 140


def out(text: str) -> None:
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    sys.stderr.write(text + "\n")


def show_table(table: RenderableType) -> None:
    """As wide as the terminal; wide enough for a table where the output goes to a file."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else WIDTH_WHERE_UNKNOWN).print(table)


def error_line(text: str) -> None:
    """One sentence, its first word in red on a terminal."""
    sys.stderr.write(f"{paint('error:', '31', sys.stderr)} {text}\n")


def paint(text: str, code: str, stream: TextIO = sys.stdout) -> str:
    """Colour on a terminal that wants it (https://no-color.org), by escape codes: importing rich costs too much."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{code}m{text}\x1b[0m"
