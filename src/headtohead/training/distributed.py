"""What several processes of one run say to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from lightning_fabric.utilities.rank_zero import rank_zero_only
from torch import Tensor


def is_main_process() -> bool:
    """Whether this process writes the record; known before the processes have met."""
    return (getattr(rank_zero_only, "rank", None) or 0) == 0


def is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


def sum_over_devices(tensor: Tensor) -> Tensor:
    if is_distributed():
        tensor = tensor.clone()
        dist.all_reduce(tensor)
    return tensor


def sums(values: Sequence[float], device: torch.device) -> list[float]:
    """Each number summed over all processes, exactly for whole numbers."""
    if not is_distributed():
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor)
    return tensor.tolist()


def largest(values: Sequence[float], device: torch.device) -> list[float]:
    """The maximum of each number over all processes."""
    if not is_distributed():
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return tensor.tolist()


@contextmanager
def own_process_group() -> Iterator[None]:
    """The processes part when a run ends, so that a later run of one device is not taken for one of several."""
    joined_before = is_distributed()
    try:
        yield
    finally:
        if is_distributed() and not joined_before:
            dist.destroy_process_group()
