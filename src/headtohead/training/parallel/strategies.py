"""Lightning's strategies for several devices; the checkpoints do not tell how many devices there were."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from pytorch_lightning.strategies import DDPStrategy, ModelParallelStrategy
from torch import Tensor
from torch.distributed.rendezvous import rendezvous
from torch.optim import Optimizer
from typing_extensions import override

from headtohead.training.parallel.process_group import register_process
from headtohead.training.parallel.sharded_tensors import divided, gathered, load_whole, whole_state

_NUM_INITIALISATIONS = itertools.count()


class ReplicatedStrategy(DDPStrategy):
    """A copy of the model on every device."""

    @override
    def setup_environment(self) -> None:
        _init_process_group(self)
        super().setup_environment()


class ShardedStrategy(ModelParallelStrategy):
    """A model in parts. State is put together before it is saved and divided after it was read: a run resumes on any
    number of devices."""

    @override
    def setup_environment(self) -> None:
        _init_process_group(self)
        super().setup_environment()

    @property
    @override
    def lightning_restore_optimizer(self) -> bool:
        return True

    @override
    def lightning_module_state_dict(self) -> dict[str, Any]:
        assert self.lightning_module is not None
        return {name: tensor.cpu() for name, tensor in whole_state(self.lightning_module).items()}

    @override
    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        assert strict and self.lightning_module is not None
        load_whole(self.lightning_module, checkpoint["state_dict"])

    @override
    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        state = optimizer.state_dict()
        return {**state, "state": {index: _whole_values(values) for index, values in state["state"].items()}}

    @override
    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        for optimizer, saved in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            weights = [weight for group in optimizer.param_groups for weight in group["params"]]
            indices = [index for group in saved["param_groups"] for index in group["params"]]
            by_index = dict(zip(indices, weights, strict=True))
            state = {index: _divided_values(values, by_index[index]) for index, values in saved["state"].items()}
            optimizer.load_state_dict({**saved, "state": state})

    @override
    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        del weights_only
        torch.cuda.empty_cache()
        return self.checkpoint_io.load_checkpoint(self.broadcast(checkpoint_path))


def _init_process_group(strategy: ReplicatedStrategy | ShardedStrategy) -> None:
    """Have the processes of a run find each other under a name of its own, in the store that they meet in for good."""
    if dist.is_initialized():
        return
    environment = strategy.cluster_environment
    assert environment is not None
    strategy.set_world_ranks()
    rank, size = environment.global_rank(), environment.world_size()
    shared = _store(environment.main_address, environment.main_port, rank, size)
    store = dist.PrefixStore(f"run_{next(_NUM_INITIALISATIONS)}", shared)  # type: ignore[attr-defined]
    register_process(store, rank, size)
    dist.init_process_group(
        strategy.process_group_backend,
        store=store,
        rank=rank,
        world_size=size,
        device_id=None if strategy.root_device.type == "cpu" else strategy.root_device,
    )


@cache
def _store(address: str, port: int, rank: int, size: int) -> Any:
    """Open the store of these processes once for all their runs. Were it closed between two, a process that is ahead
    would still find the old one open, join it, and lose it."""
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = address, str(port)
    store, _, _ = next(rendezvous("env://", rank=rank, world_size=size))
    return store


def _whole_values(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: gathered(value).cpu() if isinstance(value, Tensor) else value for name, value in state.items()}


def _divided_values(state: Mapping[str, Any], weight: Tensor) -> dict[str, Any]:
    """Place what an optimizer stores for each element of a weight on the device of that element."""
    return {
        name: divided(value, weight) if isinstance(value, Tensor) and value.shape == weight.shape else value
        for name, value in state.items()
    }
