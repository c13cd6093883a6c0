"""Exchange values between the processes of one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from lightning_fabric.utilities.rank_zero import rank_zero_only
from pytorch_lightning import Trainer
from pytorch_lightning.strategies import ModelParallelStrategy
from torch import Tensor
from torch.distributed import ProcessGroup

from headtohead.training.parallel.split_layers import REPLICAS


def is_main_process() -> bool:
    """Return whether this process writes the record; this is known before the processes have connected."""
    return (getattr(rank_zero_only, "rank", None) or 0) == 0


def is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


@dataclass(frozen=True)
class Replicas:
    """The copies of the model, each with its share of every batch; devices that divide a copy's layers read the same
    share and count once."""

    rank: int = 0
    size: int = 1
    group: ProcessGroup | None = None
    """One device of each copy; None means all devices."""

    def summed(self, tensor: Tensor) -> Tensor:
        """Return the value summed over all copies."""
        if is_distributed():
            tensor = tensor.clone()
            dist.all_reduce(tensor, group=self.group)
        return tensor

    def gathered(self, counts: Tensor) -> Tensor:
        """Return the counts of all copies in their order, along a new first dimension."""
        if not is_distributed():
            return counts[None]
        of_each = [torch.empty_like(counts) for _ in range(self.size)]
        dist.all_gather(of_each, counts.contiguous(), group=self.group)
        return torch.stack(of_each)

    def sums(self, values: Sequence[float], device: torch.device) -> list[float]:
        """Return each number summed over all copies, exactly for whole numbers."""
        if not is_distributed():
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(tensor, group=self.group)
        return tensor.tolist()


def replicas_of(trainer: Trainer) -> Replicas:
    """Known once the processes have met."""
    if not isinstance(trainer.strategy, ModelParallelStrategy):
        return Replicas(trainer.global_rank, trainer.world_size)
    mesh = trainer.strategy.device_mesh[REPLICAS]
    return Replicas(mesh.get_local_rank(), mesh.size(), mesh.get_group())


def joined(heads: Tensor, group: ProcessGroup, device: torch.device) -> Tensor:
    """[B, H, ...] with the heads of every process of the group, in their order."""
    own = heads.to(device).contiguous()
    of_each = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(of_each, own, group=group)
    return torch.cat(of_each, dim=1).cpu()


def largest(values: Sequence[float], device: torch.device) -> list[float]:
    """Return the maximum of each number over all processes."""
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
