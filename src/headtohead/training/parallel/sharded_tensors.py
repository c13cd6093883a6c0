"""Tensors that lie in parts on several devices (DTensor): the part held here, the whole, and norms over all parts.

Whatever is plain passes through unchanged, so that one code serves one device and many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate


def is_sharded(module: nn.Module) -> bool:
    return any(isinstance(parameter, DTensor) for parameter in module.parameters())


def local(tensor: Tensor) -> Tensor:
    """Return this device's shard of the tensor, sharing its memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def gathered(tensor: Tensor) -> Tensor:
    """Gather the whole tensor on every device; all devices must call this."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def divided(tensor: Tensor, like: Tensor) -> Tensor:
    """Shard a whole tensor, the same on every device, like `like`."""
    if not isinstance(like, DTensor):
        return tensor
    everywhere = [Replicate()] * like.device_mesh.ndim
    replicated = DTensor.from_local(tensor.to(like.device), like.device_mesh, everywhere, run_check=False)
    return replicated.redistribute(placements=like.placements)


def as_part(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a tensor that represents this device's shard of something divided like `like`."""
    if not isinstance(like, DTensor):
        return tensor
    return DTensor.from_local(
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
        if isinstance(tensor, DTensor):
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
