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
    """What this device holds of it; the same memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """All of it, put together on every device; all of them must ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def divided(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, the same on every device, in parts as `like` is."""
    if not isinstance(like, DTensor):
        return tensor
    everywhere = [Replicate()] * like.device_mesh.ndim
    held = DTensor.from_local(tensor.to(like.device), like.device_mesh, everywhere, run_check=False)
    return held.redistribute(placements=like.placements)


def as_part(tensor: Tensor, like: Tensor) -> Tensor:
    """What stands for this device's part of something divided as `like` is."""
    if not isinstance(like, DTensor):
        return tensor
    return DTensor.from_local(
        tensor, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


@torch.no_grad()
def whole_state(module: nn.Module) -> dict[str, Tensor]:
    """The state of a module as one device would have it; two names of one tensor stay so."""
    found: dict[int, Tensor] = {}
    state = module.state_dict(keep_vars=True)
    for held in state.values():
        if id(held) not in found:
            found[id(held)] = whole(held.detach())
    return {name: found[id(held)] for name, held in state.items()}


@torch.no_grad()
def load_whole(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """The reverse."""
    if not is_sharded(module):
        module.load_state_dict(state)
        return
    held = module.state_dict()
    assert held.keys() == state.keys(), f"another model's state: {sorted(held.keys() ^ state.keys())}"
    for name, tensor in held.items():
        local(tensor).copy_(local(divided(state[name], tensor)))


def sum_over_parts(numbers: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """One number for the part that is here of each tensor: added up over the devices that hold the other parts."""
    sharers: dict[str, tuple[dist.ProcessGroup, list[int]]] = {}
    for place, tensor in enumerate(tensors):
        if isinstance(tensor, DTensor):
            for dimension, placement in enumerate(tensor.placements):
                if placement.is_shard():
                    group = tensor.device_mesh.get_group(dimension)
                    sharers.setdefault(group.group_name, (group, []))[1].append(place)
    for group, places in sharers.values():
        summed = numbers[places]
        dist.all_reduce(summed, group=group)
        numbers[places] = summed
    return numbers


def square_norms(tensors: Sequence[Tensor], like: Sequence[Tensor]) -> Tensor:
    """Of parts, which are divided as `like` is: the squared norms of the whole tensors."""
    squares = torch.stack([norm.double() for norm in torch._foreach_norm(list(tensors))]).square()
    return sum_over_parts(squares, like)


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> None:
    """As torch's clip_grad_norm_, which cannot read plain tensors and divided ones together."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return
    parts = [local(gradient) for gradient in gradients]
    norm = square_norms(parts, gradients).sum().sqrt()
    torch._foreach_mul_(parts, (max_norm / (norm + 1e-6)).clamp(max=1.0).to(parts[0].dtype))
