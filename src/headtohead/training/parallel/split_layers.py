"""A model spread over devices: its layers divided (Shoeybi et al. 2019, https://arxiv.org/abs/1909.08053), and its
weights sharded (Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054; torch's FSDP2).

What torch has for it takes most of a second to import, and is imported where a run has several devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.decoder import DecodingModel
from headtohead.components.block import Block
from headtohead.components.component import Component, Position
from headtohead.errors import UsageError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.parallel import ParallelStyle

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
        register_fsdp_forward_method(model, "features")
        if isinstance(model, DecodingModel):
            model.writing = partial(_gathered, model, reshard)  # type: ignore[method-assign]


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
