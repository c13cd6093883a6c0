"""Named sums over samples, batches and devices, from which every ratio among the metrics is computed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torchmetrics import Metric, MetricCollection

from headtohead.data.batches.batch import IGNORED


class Arrays(Metric):
    """Sums arrays by name, in float64, so that a ragged last batch weighs as much as its samples."""

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
        """Keep the sums in float64 when a model moves to half precision."""
        moved: nn.Module = super()._apply(fn, exclude_state)
        for name, shape in self.shapes.items():
            setattr(self, name, self._sum(name).to(torch.float64))
            self._defaults[name] = torch.zeros(shape, dtype=torch.float64, device=self._sum(name).device)
        return moved


class MetricSums(Arrays):
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

    def read(self, stage: Literal["validation", "test"]) -> Any:
        """Return what the metric computes over all devices, a mapping for sums, and start afresh."""
        metric = self._of(stage)
        with warnings.catch_warnings():
            # A device may have had no batch at all, which is not a mistake.
            warnings.filterwarnings("ignore", message="The ``compute`` method of metric", category=UserWarning)
            values = metric.compute()
        metric.reset()
        return values

    def _of(self, stage: Literal["validation", "test"]) -> Any:
        return self.validation if stage == "validation" else self.test


class Items:
    """A list hidden from torchmetrics, which would search it for tensors, item by item."""

    def __init__(self, items: list[Any]) -> None:
        self.content = items


class Collected(Metric):
    """Objects collected unchanged, gathered over all devices when they are read; their order means nothing."""

    full_state_update = False
    higher_is_better = None

    def __init__(self) -> None:
        super().__init__()
        self._items: list[Any] = []

    def update(self, *items: Any) -> None:
        self._items.extend(items)

    def compute(self) -> Items:
        if not (dist.is_available() and dist.is_initialized()):
            return Items(self._items)
        shares: list[Any] = [None] * dist.get_world_size(self.process_group)
        dist.all_gather_object(shares, self._items, group=self.process_group)
        return Items([item for share in shares for item in share])

    def reset(self) -> None:
        super().reset()
        self._items = []


class CollectedPerStage(PerStage):
    """Lists of objects collected for validation and for test separately."""

    def __init__(self) -> None:
        super().__init__(Collected)

    def items(self, stage: Literal["validation", "test"]) -> list[Any]:
        """Return the objects of all devices, and start afresh."""
        sums: Any = self.read(stage)
        assert isinstance(sums, Items)
        return sums.content


ROW = "row"
"""The column with the index of the row in the split."""
Columns = dict[str, np.ndarray]


class RowScores:
    """Scores of rows, collected where they are requested, at no cost elsewhere."""

    def __init__(self) -> None:
        self.enabled = False
        self._parts: list[Columns] = []

    @contextmanager
    def collecting(self) -> Iterator[RowScores]:
        """Record the rows of a test within this block."""
        self.enabled, self._parts = True, []
        try:
            yield self
        finally:
            self.enabled, self._parts = False, []

    def add(self, rows: Int[Tensor, " B"], /, **sums: Shaped[Tensor, " B"]) -> None:
        """Record one number for each row of a batch, by name."""
        if self.enabled:
            columns = {name: values.detach().float().cpu().numpy() for name, values in sums.items()}
            self._parts.append({ROW: rows.cpu().numpy(), **columns})

    def columns(self) -> Columns:
        """Return all rows in the order of the split, over all devices; empty where nothing was collected."""
        parts = self._parts
        if dist.is_available() and dist.is_initialized():
            shares: list[list[Columns]] = [[] for _ in range(dist.get_world_size())]
            dist.all_gather_object(shares, parts)
            parts = [part for share in shares for part in share]
        if not parts:
            return {}
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        _, first = np.unique(joined[ROW], return_index=True)
        return {name: values[first] for name, values in joined.items()}


def summed_by_row(values: Tensor, targets: Int[Tensor, "B L"]) -> Float[Tensor, " B"]:
    """Return the sums over each row's targets of values that `scored_rows` flattened: all of them, or those that
    count."""
    counted = targets != IGNORED
    by_row = torch.zeros(targets.shape, dtype=torch.float32, device=targets.device)
    flat = values.float()
    if flat.numel() == targets.numel():
        by_row = flat.view(targets.shape) * counted
    else:
        by_row[counted] = flat
    return by_row.sum(1)
