"""Long texts in pieces, so that memory stays small."""

from __future__ import annotations

from collections.abc import Iterator

_PIECE = 2**16
"""Characters of a long text that are encoded at once, cut after a line's end."""


def cut(text: str) -> Iterator[str]:
    """Pieces of a long text, each ending where a line does, as far as lines allow."""
    start = 0
    while len(text) - start > _PIECE:
        end = text.rfind("\n", start, start + _PIECE) + 1 or start + _PIECE
        yield text[start:end]
        start = end
    yield text[start:]
