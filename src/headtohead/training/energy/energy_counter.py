"""Counters of energy and the amounts that they measure; where none can be read there is no amount."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


class UnmeasuredError(Exception):
    """Energy that cannot be measured here; the message is the reason."""


@dataclass(frozen=True)
class Energy:
    """An amount of energy, and what measured it."""

    joules: float | None = 0.0
    """The amount, or None where a part of it was not measured."""
    source: str = ""
    """The counter; empty where nothing was drawn yet."""

    def __add__(self, other: Energy) -> Energy:
        """Amounts of different counters are of different things, and have no sum."""
        if not other.source or not self.source:
            return self if self.source else other
        if self.joules is None or other.joules is None:
            return self if self.joules is None else other
        if self.source != other.source:
            return Energy(None, not_measured(f"one start was measured by {self.source}, another by {other.source}"))
        return Energy(self.joules + other.joules, self.source)


NOTHING = Energy()


def not_measured(reason: str) -> str:
    """Return the text that a record has in place of a counter's name."""
    return f"not measured: {reason}"


class EnergyCounter(ABC):
    """A counter that goes on whether or not anybody reads it."""

    source: str
    """Its name in a record; amounts of one source can be compared."""

    @abstractmethod
    def read(self) -> float | None:
        """Return the joules since the last reading; None where they are not known."""

    def drawn(self) -> Energy:
        """Return the energy since the last reading; an unknown one has the reason in place of its source."""
        if (joules := self.read()) is not None:
            return Energy(joules, self.source)
        return Energy(None, self._why_unknown())

    def _why_unknown(self) -> str:
        return not_measured(f"{self.source}: a reading failed, or came so late that the counter may have gone round")


class NoCounter(EnergyCounter):
    """A place without a readable counter."""

    def __init__(self, reason: str) -> None:
        self.source = not_measured(reason)

    def read(self) -> float | None:
        return None

    def _why_unknown(self) -> str:
        return self.source
