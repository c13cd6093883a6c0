"""What several processes of one run say to each other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from lightning_fabric.utilities.rank_zero import rank_zero_only
from torch import Tensor

_LAUNCHERS_VARIABLES = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


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
def launcher_leaves_no_trace() -> Iterator[None]:
    """Lightning's launcher sets variables that would make a second run in this process think that it was launched."""
    before = {name: os.environ.get(name) for name in _LAUNCHERS_VARIABLES}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
