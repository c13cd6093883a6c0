"""The part of a document that is shown for a query: where most of its words are, else the beginning."""

from __future__ import annotations

import re

from headtohead.examining.retrieval.bm25 import words_of

_WORD = re.compile(r"\w+")
_MORE = "…"


def snippet(text: str, query: str, width: int) -> str:
    """One line of at most `width` characters, cut between words."""
    line = " ".join(text.split())
    if len(line) <= width:
        return line
    wanted = set(words_of(query))
    hits = [(found.start(), found.group().lower()) for found in _WORD.finditer(line) if found.group().lower() in wanted]
    room = width - 2
    start = 0
    most = len({word for place, word in hits if place < room})
    for place, _ in hits:
        inside = len({word for other, word in hits if place <= other < place + room - room // 4})
        if inside > most:
            start, most = max(0, place - room // 4), inside
    return _cut(line, start, room)


def _cut(line: str, start: int, room: int) -> str:
    if start:
        blank = line.find(" ", start)
        start = blank + 1 if 0 <= blank < start + room // 4 else start
    end = start + room
    if end < len(line):
        blank = line.rfind(" ", start, end)
        end = blank if blank > start + room // 2 else end
    return f"{_MORE if start else ''}{line[start:end].strip()}{_MORE if end < len(line) else ''}"
