"""Named sums over samples, batches and devices: what every ratio among the metrics is made of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torchmetrics import Metric, MetricCollection


class Arrays(Metric):  # type: ignore[misc]
    """Adds arrays up by name, in float64, so that a ragged last batch weighs what it holds and no more."""

    full_state_update = False
    higher_is_better = None

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.shapes = dict(shapes)
        for name, shape in self.shapes.items():
            self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, **sums: Tensor | float) -> None:
        for name, value in sums.items():
            self._sum(name).add_(value)

    def compute(self) -> dict[str, Any]:
        return {name: self._sum(name).tolist() for name in self.shapes}

    def _sum(self, name: str) -> Tensor:
        value: Tensor = getattr(self, name)
        return value

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = "") -> nn.Module:
        """Moving a model to a half precision must not round its sums."""
        moved: nn.Module = super()._apply(fn, exclude_state)
        for name, shape in self.shapes.items():
            setattr(self, name, self._sum(name).to(torch.float64))
            self._defaults[name] = torch.zeros(shape, dtype=torch.float64, device=self._sum(name).device)
        return moved


class Sums(Arrays):
    """Single numbers."""

    def __init__(self, *names: str) -> None:
        super().__init__(dict.fromkeys(names, ()))


class PerStage(nn.Module):
    """The metrics of validation and of test, apart."""

    def __init__(self, make: Callable[[], Metric | MetricCollection]) -> None:
        super().__init__()
        self.validation, self.test = make(), make()

    def add(self, stage: Literal["validation", "test"], *values: Any, **sums: Tensor | float) -> None:
        self._of(stage).update(*values, **sums)

    def read(self, stage: Literal["validation", "test"]) -> dict[str, Any]:
        """The values over all devices; starts afresh."""
        metric = self._of(stage)
        with warnings.catch_warnings():
            # A device may have had no batch at all, which is no mistake.
            warnings.filterwarnings("ignore", message="The ``compute`` method of metric", category=UserWarning)
            values: dict[str, Any] = metric.compute()
        metric.reset()
        return values

    def _of(self, stage: Literal["validation", "test"]) -> Any:
        return self.validation if stage == "validation" else self.test
