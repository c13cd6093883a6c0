"""What single rows of a test add to its metrics: sums of each row, of which a metric is a ratio over all rows. They say
what other rows would say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from headtohead.data.batch import IGNORED

ROW = "row"
"""The name of the column that says which row of the split it is."""
Columns = dict[str, np.ndarray]


class RowScores:
    """Collects them where somebody wants them, and costs nothing elsewhere."""

    def __init__(self) -> None:
        self.wanted = False
        self._parts: list[Columns] = []

    @contextmanager
    def collecting(self) -> Iterator[RowScores]:
        """Of a test within this block."""
        self.wanted, self._parts = True, []
        try:
            yield self
        finally:
            self.wanted, self._parts = False, []

    def add(self, rows: Int[Tensor, " B"], /, **sums: Shaped[Tensor, " B"]) -> None:
        """One number for each row of a batch, by name."""
        if self.wanted:
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
        whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        _, first = np.unique(whole[ROW], return_index=True)
        return {name: values[first] for name, values in whole.items()}


def summed_by_row(values: Tensor, targets: Int[Tensor, "B L"]) -> Float[Tensor, " B"]:
    """Return the sums over each row's targets of what `scored_rows` laid in a row: all of them, or those that count."""
    counted = targets != IGNORED
    whole = torch.zeros(targets.shape, dtype=torch.float32, device=targets.device)
    flat = values.float()
    if flat.numel() == targets.numel():
        whole = flat.view(targets.shape) * counted
    else:
        whole[counted] = flat
    return whole.sum(1)
