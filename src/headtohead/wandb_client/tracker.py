"""Define the tracker's interface, through which a run reports beside its record, and the tracker that reports
nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from headtohead.metrics.metric import MetricTable
from headtohead.records.record import Progress, Status, WandbLink


class Tracker(ABC):
    """A tracker receives a run's numbers and pictures besides the record."""

    def __init__(self) -> None:
        self.link = WandbLink()

    @property
    def lost(self) -> Mapping[str, int]:
        """Return how many logged items did not arrive, by kind: numbers, tables, pictures."""
        return {}

    @abstractmethod
    def log(self, progress: Progress, values: Mapping[str, float]) -> None:
        """Numbers of one step."""

    @abstractmethod
    def images(self, progress: Progress, pictures: Mapping[str, object]) -> None:
        """Arrays as pictures: maps [H, W], coloured here, or colours [H, W, 3]."""

    @abstractmethod
    def tables(self, progress: Progress, tables: Mapping[str, MetricTable]) -> None:
        """Tables by name."""

    @abstractmethod
    def summary(self, values: Mapping[str, object]) -> None:
        """Single values of the whole run."""

    @abstractmethod
    def finish(self, status: Status, reason: str | None = None) -> None:
        """The end, within the finish timeout."""


class NoTracker(Tracker):
    """tracking=none: the record alone."""

    def log(self, progress: Progress, values: Mapping[str, float]) -> None:
        del progress, values

    def images(self, progress: Progress, pictures: Mapping[str, object]) -> None:
        del progress, pictures

    def tables(self, progress: Progress, tables: Mapping[str, MetricTable]) -> None:
        del progress, tables

    def summary(self, values: Mapping[str, object]) -> None:
        del values

    def finish(self, status: Status, reason: str | None = None) -> None:
        del status, reason
