"""Tensors that lie in parts on several devices (DTensor): the part held here, the whole, and norms over all parts.

Whatever is plain passes through unchanged, so that one code serves one device and many.

A model spread over devices: its layers divided (Shoeybi et al. 2019, https://arxiv.org/abs/1909.08053), and its
weights sharded (Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054; torch's FSDP2).

What torch has for it takes most of a second to import, and is imported where a run has several devices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn
from typing_extensions import TypeIs

from headtohead.architectures.architecture import Architecture, DecodingModel
from headtohead.components.block import Block
from headtohead.components.component import Component, Position
from headtohead.errors import UsageError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import ParallelStyle


def is_part_type(kind: type) -> bool:
    """Return whether its tensors are DTensors, of which there are none before torch's module of them is imported."""
    module = sys.modules.get("torch.distributed.tensor")  # which costs half a second, and one device does without
    return module is not None and issubclass(kind, module.DTensor)


def is_part(tensor: Tensor) -> TypeIs[DTensor]:
    return is_part_type(type(tensor))


def is_sharded(module: nn.Module) -> bool:
    return any(is_part(parameter) for parameter in module.parameters())


def local(tensor: Tensor) -> Tensor:
    """Return this device's shard of the tensor, sharing its memory."""
    return tensor.to_local() if is_part(tensor) else tensor


def gathered(tensor: Tensor) -> Tensor:
    """Gather the whole tensor on every device; all devices must call this."""
    return tensor.full_tensor() if is_part(tensor) else tensor


def divided(tensor: Tensor, like: Tensor) -> Tensor:
    """Shard a whole tensor, the same on every device, like `like`."""
    if not is_part(like):
        return tensor
    from torch.distributed.tensor import DTensor, Replicate

    everywhere = [Replicate()] * like.device_mesh.ndim
    replicated = DTensor.from_local(tensor.to(like.device), like.device_mesh, everywhere, run_check=False)
    return replicated.redistribute(placements=like.placements)


def as_part(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a tensor that represents this device's shard of something divided like `like`."""
    if not is_part(like):
        return tensor
    return type(like).from_local(
        tensor, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


@torch.no_grad()
def whole_state(module: nn.Module) -> dict[str, Tensor]:
    """The state of a module as one device would have it; two names of one tensor stay so."""
    whole: dict[int, Tensor] = {}
    state = module.state_dict(keep_vars=True)
    for tensor in state.values():
        if id(tensor) not in whole:
            whole[id(tensor)] = gathered(tensor.detach())
    return {name: whole[id(tensor)] for name, tensor in state.items()}


@torch.no_grad()
def load_whole(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load a whole state into a sharded module."""
    if not is_sharded(module):
        module.load_state_dict(state)
        return
    own_state = module.state_dict()
    assert own_state.keys() == state.keys(), f"another model's state: {sorted(own_state.keys() ^ state.keys())}"
    for name, tensor in own_state.items():
        local(tensor).copy_(local(divided(state[name], tensor)))


def sum_over_parts(numbers: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """One number for the part that is here of each tensor: added up over the devices that hold the other parts."""
    by_group: dict[str, tuple[dist.ProcessGroup, list[int]]] = {}
    for index, tensor in enumerate(tensors):
        if is_part(tensor):
            for dimension, placement in enumerate(tensor.placements):
                if placement.is_shard():
                    group = tensor.device_mesh.get_group(dimension)
                    by_group.setdefault(group.group_name, (group, []))[1].append(index)
    for group, indices in by_group.values():
        summed = numbers[indices]
        dist.all_reduce(summed, group=group)
        numbers[indices] = summed
    return numbers


def square_norms(tensors: Sequence[Tensor], like: Sequence[Tensor]) -> Tensor:
    """Return the squared norms of the whole tensors, computed from shards that are divided like `like`."""
    squares = torch.stack([norm.double() for norm in torch._foreach_norm(list(tensors))]).square()
    return sum_over_parts(squares, like)


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> None:
    """Clip gradients like torch's clip_grad_norm_, which cannot read plain and sharded tensors together."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return
    parts = [local(gradient) for gradient in gradients]
    norm = square_norms(parts, gradients).sum().sqrt()
    torch._foreach_mul_(parts, (max_norm / (norm + 1e-6)).clamp(max=1.0).to(parts[0].dtype))


REPLICAS, PARTS = "data_parallel", "tensor_parallel"
"""The dimensions of the mesh, as Lightning names them."""


def parallelise(model: Architecture, mesh: DeviceMesh, *, shard_among: int | None = None, reshard: bool = True) -> None:
    """First each layer is divided, then what every device has of it is sharded over the replicas, or over groups of
    them that hold copies (Zhao et al. 2023, https://arxiv.org/abs/2304.11277, section 3.2.2)."""
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    if mesh[PARTS].size() > 1:
        for module in model.modules():
            if isinstance(module, Component):
                _apply_plan(module, mesh[PARTS])
    if mesh[REPLICAS].size() > 1:
        blocks = [module for module in model.modules() if isinstance(module, Block)]
        replicas = _in_groups(mesh, shard_among)
        for block in blocks:
            fully_shard(block, mesh=replicas, reshard_after_forward=reshard)
        fully_shard(model, mesh=replicas)
        model.features = partial(_differentiable, model.features)  # type: ignore[method-assign]
        for name in model.forward_methods:
            register_fsdp_forward_method(model, name)
        if isinstance(model, DecodingModel):
            model.writing = partial(_gathered, model, reshard)  # type: ignore[method-assign]


def _differentiable(features: Callable[..., Tensor], *inputs: Tensor, **named: Tensor) -> Tensor:
    """Return features that have a gradient, also of a frozen body: FSDP scatters the head's gradients after theirs."""
    y = features(*inputs, **named)
    return y.requires_grad_() if torch.is_grad_enabled() else y


def _in_groups(mesh: DeviceMesh, shard_among: int | None) -> DeviceMesh:
    """Return the mesh of the replicas, as copies of groups where weights are sharded among fewer than all."""
    from torch.distributed.device_mesh import init_device_mesh

    size = mesh[REPLICAS].size()
    if shard_among is None or shard_among == size:
        return mesh[REPLICAS]
    return init_device_mesh(mesh.device_type, (size // shard_among, shard_among), mesh_dim_names=("copies", "shards"))


@contextmanager
def _gathered(model: Architecture, reshard: bool) -> Iterator[None]:
    """Rows may take more steps on one device than on another: writing finds all weights, and asks for none."""
    from torch.distributed.fsdp import FSDPModule

    modules = {path: module for path, module in model.named_modules() if isinstance(module, FSDPModule)}
    for module in modules.values():
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for path, module in modules.items():
            module.reshard()
            module.set_reshard_after_forward(bool(path) and reshard, recurse=False)  # the outermost never


def check_tensor_parallel_plans(model: Architecture, parts: int) -> None:
    """Raises ValueError where the layers of a model cannot be divided into so many parts."""
    for path, module in model.named_modules():
        if isinstance(module, Position) and module.biases_scores:
            raise UsageError(
                f"trainer.tensor_parallel={parts} gives each device some of the heads, and {type(module).__name__} "
                "biases the scores of all: use model/position=rotary, learned, sinusoidal or none, or trainer=fsdp"
            )
        split = module.tensor_parallel_plan() if isinstance(module, Component) else None
        if split is not None and split.num_units % parts:
            raise UsageError(
                f"trainer.tensor_parallel={parts} cannot divide {path} ({type(module).__name__}), which has "
                f"{split.num_units} {split.unit_name}: choose a divisor of that, or trainer=fsdp"
            )


def _apply_plan(component: Component, mesh: DeviceMesh) -> None:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    split = component.tensor_parallel_plan()
    if split is None:
        return
    plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in split.column_wise}
    plan |= {name: RowwiseParallel() for name in split.row_wise}
    parallelize_module(component, mesh, plan)
