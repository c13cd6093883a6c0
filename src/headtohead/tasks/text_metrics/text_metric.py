"""Text measures compare the texts that a model wrote with their targets: sums over samples, and metrics made of the
sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor

from headtohead.data.data_source import DataSpec
from headtohead.metrics import Metric


class TextMetric(ABC):
    """A comparison of written texts with their targets, from sums over samples and devices."""

    metrics: ClassVar[tuple[Metric, ...]]
    """The metrics that it computes."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its figures."""
        return tuple(metric.name for metric in self.metrics)

    @property
    @abstractmethod
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of its sums, by names that no other measure has."""

    @abstractmethod
    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        """Return the sums over these samples."""

    @abstractmethod
    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        """Return the metrics from the sums over all samples and devices."""

    def of_a_row(self, sums: Mapping[str, Any]) -> dict[str, float]:
        """Return those metrics that mean something for a single sample."""
        return self.figures(sums)

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of writing nothing."""
        del spec
        return dict.fromkeys(self.names, 0.0)
