"""What a metric needs of every sample at once, where no sum will do: windows of one question, ranks among all."""

from __future__ import annotations

from typing import Any, Literal

import torch.distributed as dist
from torchmetrics import Metric

from headtohead.tasks.sums import PerStage


class Items:
    """Hidden from torchmetrics, which would look for tensors inside, one by one."""

    def __init__(self, items: list[Any]) -> None:
        self.kept = items


class Collected(Metric):  # type: ignore[misc]
    """Things kept as they are, of all devices together when they are read; their order tells nothing."""

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
    """Of validation and of test, apart."""

    def __init__(self) -> None:
        super().__init__(Collected)

    def items(self, stage: Literal["validation", "test"]) -> list[Any]:
        """Those of all devices; starts afresh."""
        found: Any = self.read(stage)
        assert isinstance(found, Items)
        return found.kept
