"""Training FLOPs of rows at their own lengths, so that no division of a batch changes the sum."""

from __future__ import annotations

from collections.abc import Mapping

from headtohead.architectures.contracts import Architecture, InputSize
from headtohead.architectures.freezing import as_trained

Lengths = tuple[int, int]
"""Tokens of a row on the side of `tokens` and on that of `decoder_tokens`; 0 for a side that there is not."""


class RowFlops:
    """The ledger's training FLOPs of rows, asked once for every length.

    A cross mixer costs so much for a source token, a target token and a pair of them: few sizes tell all others.
    """

    def __init__(self, model: Architecture) -> None:
        self._model = model
        self._known: dict[tuple[Lengths, int], int] = {}
        self._per_target: int | None = None

    def of(self, rows: Mapping[Lengths, int], *, scored: int = 0) -> tuple[int, int]:
        """Return the FLOPs of the rows of one batch, given how many there are of each lengths and how many of their
        targets are scored, and the FLOPs spent on padding them to the longest."""
        longest = max(length for length, _ in rows), max(length for _, length in rows)
        whole = self._of_row(longest)
        own = sum(count * self._of_readable_row(lengths, longest) for lengths, count in rows.items())
        return own + scored * self._of_target(longest), sum(rows.values()) * whole - own

    def _of_readable_row(self, lengths: Lengths, longest: Lengths) -> int:
        """A module of somebody else's may read a short row only where it is padded."""
        try:
            return self._of_row(lengths)
        except ValueError:
            return self._of_row(longest)

    def _of_row(self, lengths: Lengths) -> int:
        """Return the FLOPs of one row without those of the logits, which are made where a target is scored."""
        length, decoder_length = lengths
        if not length or not decoder_length:
            return self._asked(lengths)
        one = self._asked((1, 1))
        per_pair = self._asked((2, 2)) - self._asked((2, 1)) - self._asked((1, 2)) + one
        pairs = (length - 1) * (decoder_length - 1)
        return self._asked((length, 1)) + self._asked((1, decoder_length)) - one + pairs * per_pair

    def _of_target(self, lengths: Lengths) -> int:
        """Return the FLOPs of the logits at one position."""
        if self._per_target is None:
            self._per_target = self._asked(lengths, scored=1) - self._asked(lengths)
        return self._per_target

    def _asked(self, lengths: Lengths, scored: int = 0) -> int:
        if (lengths, scored) not in self._known:
            size = InputSize(length=lengths[0], decoder_length=lengths[1], scored=scored)
            rows = as_trained(self._model, self._model.cost_rows(size))
            self._known[lengths, scored] = sum(row.costs.training_flops for row in rows)
        return self._known[lengths, scored]
