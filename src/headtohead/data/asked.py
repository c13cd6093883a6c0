"""What is asked of a row, in words, so that answers are compared as texts and not as tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Asked:
    """A question and the window of its context that one row shows. The windows of a question stand in rows of their
    own, one after another."""

    number: int
    """Of the question in its split."""
    id: str
    """As the data names it."""
    context: str
    """All of it, not the window alone."""
    answers: tuple[str, ...]
    """All that count as right; none where the context does not answer the question."""
    first: int
    """Where in the row the window begins."""
    edges: np.ndarray
    """At which character of the context the window begins, then where each of its tokens ends."""

    def text(self, first: int, last: int) -> str:
        """From one place of the row to another, as the context has it."""
        begin, end = self.edges[first - self.first], self.edges[last - self.first + 1]
        return self.context[int(begin) : int(end)].strip()
