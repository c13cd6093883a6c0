"""A text that grows token by token: what of it is sure to stay, and whether a string ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Ending = Literal["end", "stop", "length"]
_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_MOST_BYTES = 3
"""Of a character in UTF-8, without its last one."""


@dataclass(frozen=True)
class Written:
    """What a model wrote for a prompt."""

    prompt: str
    text: str
    tokens: tuple[int, ...]
    """All that were written, the one that ended the text included."""
    ending: Ending
    """By its end token, by a token or string to stop at, or because it was long enough."""
    score: float | None = None
    """Of a text found by beams: its log-probability per length^penalty."""


@dataclass
class GrowingText:
    """The text of one row. A character whose bytes are not all there, and what may be the beginning of a string to stop
    at, are held back."""

    decode: Callable[[Sequence[int]], str]
    stop: Sequence[str] = ()
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    ending: Ending = "length"
    _shown: int = 0

    def add(self, token: int) -> str:
        """What can be shown now."""
        self.tokens.append(token)
        self.text = self.decode(self.tokens)
        found = [place for place in map(self.text.find, self.stop) if place >= 0]
        if found:
            self.text, self.ending = self.text[: min(found)], "stop"
            return self.rest()
        return self._up_to(len(self.text) - self._held())

    def rest(self) -> str:
        """What was held back, at the end."""
        return self._up_to(len(self.text))

    def _up_to(self, end: int) -> str:
        start, self._shown = self._shown, max(self._shown, end)
        return self.text[start : self._shown]

    def _held(self) -> int:
        unfinished = len(self.text) - len(self.text.rstrip(_UNFINISHED))
        begun = (
            length
            for string in self.stop
            for length in range(min(len(string) - 1, len(self.text)), 0, -1)
            if self.text.endswith(string[:length])
        )
        return max(unfinished if unfinished <= _MOST_BYTES else 0, *begun, 0)
