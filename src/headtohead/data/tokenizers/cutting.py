"""Long texts in pieces, so that memory stays small."""

from __future__ import annotations

from collections.abc import Iterator

_PIECE = 2**16
"""Characters of a long text that are encoded at once, cut after a line's end."""


def cut(text: str, most: int = _PIECE) -> Iterator[str]:
    """Pieces of a long text, each ending where a line does, as far as lines allow."""
    start = 0
    while len(text) - start > most:
        end = text.rfind("\n", start, start + most) + 1 or start + most
        yield text[start:end]
        start = end
    yield text[start:]
