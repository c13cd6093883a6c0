"""The prose of a page: its texts without those that are typed as they stand, and the negative numbers that lack a
minus."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_AS_TYPED = ("code", "pre", "kbd", "samp", "script", "style")
_HYPHENED = re.compile(r".{0,30}(?<![^\s(\[×])-\.?\d.{0,10}")


class _Prose(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._typed = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._typed += tag in _AS_TYPED

    def handle_endtag(self, tag: str) -> None:
        self._typed -= tag in _AS_TYPED

    def handle_data(self, data: str) -> None:
        if not self._typed:
            self.texts.append(data)


def prose_of(page: str) -> list[str]:
    """Return the texts of a page that are not code."""
    parser = _Prose()
    parser.feed(page)
    return parser.texts


def hyphened(texts: list[str]) -> list[str]:
    """Return where negative numbers are written with a hyphen."""
    return [match[0] for text in texts for match in _HYPHENED.finditer(text)]
