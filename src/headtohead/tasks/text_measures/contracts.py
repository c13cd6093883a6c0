"""What is measured on texts that a model wrote, beside those that were wanted: sums over samples, and their figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor

from headtohead.data.contracts import DataSpec
from headtohead.metrics import Metric


class TextMeasure(ABC):
    """A way to compare written texts with wanted ones, from sums over samples and devices."""

    metrics: ClassVar[tuple[Metric, ...]]
    """What its figures are."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its figures."""
        return tuple(metric.name for metric in self.metrics)

    @property
    @abstractmethod
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of its sums, by names that no other measure has."""

    @abstractmethod
    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        """Over these samples."""

    @abstractmethod
    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        """Of the sums over all samples and devices."""

    def of_a_row(self, sums: Mapping[str, Any]) -> dict[str, float]:
        """Those figures that mean something of one sample alone."""
        return self.figures(sums)

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Of nothing written."""
        del spec
        return dict.fromkeys(self.names, 0.0)
