"""Laws of tensors in parts over four processes; a program, whose first process prints what was broken."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import product

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from headtohead.execution.single_run import other_processes
from headtohead.training.parallel.sharding import (
    as_part,
    clip_gradients,
    divided,
    gathered,
    is_part,
    load_whole,
    local,
    square_norms,
    whole_state,
)

SHAPES = ((1,), (4,), (7,), (5, 4), (8, 3), (2, 3, 5))
"""Sizes that four devices divide evenly, unevenly, and of which some have nothing."""


class Tied(nn.Module):
    """Two layers, of which one weight has two names, and a part that is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 6)
        self.again = self.first
        self.second.bias.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.second(self.first(x))
        return y


def cases() -> Iterator[tuple[str, DTensor, torch.Tensor]]:
    """Yield tensors in parts, each with the whole."""
    line = init_device_mesh("cpu", (4,))
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))
    for shape in SHAPES:
        whole = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).view(shape).sin()
        kinds = [Replicate(), *(Shard(axis) for axis in range(len(shape)))]
        for kind in kinds:
            yield f"{shape} {kind}", distribute_tensor(whole, line, [kind]), whole
        for pair in product(kinds, repeat=2):
            if pair[0] != pair[1] or not pair[0].is_shard():
                yield f"{shape} {pair}", distribute_tensor(whole, grid, pair), whole


def broken(mesh: DeviceMesh) -> Iterator[str]:
    parts: list[torch.Tensor] = []
    whole_tensors: list[torch.Tensor] = []
    for name, part, whole in cases():
        laws = {
            "the parts make the whole": torch.equal(gathered(part), whole),
            "a whole is divided as its like": torch.equal(local(divided(whole, part)), local(part)),
            "a part stands for the whole": torch.equal(gathered(as_part(local(part), part)), whole),
            "it is known as a part": is_part(part) and not is_part(whole),
            "what is plain passes": gathered(whole) is local(whole) is divided(whole, whole) is whole,
        }  # fmt: skip
        yield from (f"{name}: {law}" for law, holds in laws.items() if not holds)
        parts, whole_tensors = [*parts, part], [*whole_tensors, whole]
    norms = square_norms([local(part) for part in parts], parts)
    expected = torch.stack([whole.double().square().sum() for whole in whole_tensors])
    if not torch.allclose(norms, expected, rtol=1e-6):
        yield f"norms of parts are those of the whole: {norms} {expected}"
    yield from _broken_clipping(parts, whole_tensors)
    yield from _broken_state(mesh)


def _broken_clipping(parts: list[torch.Tensor], whole_tensors: list[torch.Tensor]) -> Iterator[str]:
    """Clip gradients that lie in parts, and the same ones whole, by torch's own function."""
    for limit in (1e-2, 1e3):
        ours = [nn.Parameter(part.detach().clone()) for part in parts]
        theirs = [nn.Parameter(whole.clone()) for whole in whole_tensors]
        for weight in (*ours, *theirs):
            weight.grad = weight.detach().clone()
        clip_gradients(ours, limit)
        nn.utils.clip_grad_norm_(theirs, limit)
        for own, other in zip(ours, theirs, strict=True):
            assert own.grad is not None and other.grad is not None
            if not torch.allclose(gathered(own.grad), other.grad, rtol=1e-5):
                yield f"clipping to {limit} is torch's: {tuple(other.shape)}"


def _broken_state(mesh: DeviceMesh) -> Iterator[str]:
    torch.manual_seed(3)
    model, plain = Tied(), Tied()
    plain.load_state_dict(model.state_dict())
    fully_shard(model.first, mesh=mesh)
    fully_shard(model, mesh=mesh)
    state = whole_state(model)
    for name, tensor in plain.state_dict().items():
        if is_part(state[name]) or not torch.equal(state[name], tensor):
            yield f"the whole state is a plain one: {name}"
    if state["first.weight"] is not state["again.weight"]:
        yield "two names of one tensor stay one"
    changed = {name: tensor + 1 for name, tensor in plain.state_dict().items()}
    load_whole(model, changed)
    yield from (
        f"what was loaded is there: {name}"
        for name, tensor in whole_state(model).items()
        if not torch.equal(tensor, changed[name])
    )


def check() -> None:
    dist.init_process_group("gloo")
    faults = [*broken(init_device_mesh("cpu", (4,)))]
    if int(os.environ["RANK"]) == 0:
        sys.stdout.write("\n".join(faults))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    with other_processes(4, "laws", check):
        check()
