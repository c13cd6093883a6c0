"""Write the Markdown that generated pages share: tables, code and headings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

FACTS = (":::{container} facts", "| | |", "| --- | --- |")
"""The beginning of a table of names and what is said of each, which `:::` ends."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, with an empty line at its end."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    yield from (f"| {' | '.join(map(cell, row))} |" for row in rows)
    yield ""


def cell(text: str) -> str:
    """Return a text that stays within its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return a text as code; nothing for an empty one."""
    return f"`{text}`" if text else ""


def slug(text: str) -> str:
    """Return the anchor that MyST and GitHub give a heading."""
    letters = "".join(letter for letter in text.lower() if letter.isalnum() or letter in "_- ")
    return letters.replace(" ", "-")
