"""A model spread over devices: its layers divided (Shoeybi et al. 2019, https://arxiv.org/abs/1909.08053), and its
weights sharded (Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054; torch's FSDP2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.decoder import DecodingModel
from headtohead.components.block import Block
from headtohead.components.component import Component, Position
from headtohead.errors import UsageError

REPLICAS, PARTS = "data_parallel", "tensor_parallel"
"""The dimensions of the mesh, as Lightning names them."""


def parallelise(model: Architecture, mesh: DeviceMesh) -> None:
    """First each layer is divided, then what every device has of it is sharded over the replicas."""
    if mesh[PARTS].size() > 1:
        for module in model.modules():
            if isinstance(module, Component):
                _apply_plan(module, mesh[PARTS])
    if mesh[REPLICAS].size() > 1:
        blocks = [module for module in model.modules() if isinstance(module, Block)]
        for block in blocks:
            fully_shard(block, mesh=mesh[REPLICAS])
        fully_shard(model, mesh=mesh[REPLICAS])
        register_fsdp_forward_method(model, "features")
        if isinstance(model, DecodingModel):
            model.writing = partial(_gathered, model)  # type: ignore[method-assign]


@contextmanager
def _gathered(model: Architecture) -> Iterator[None]:
    """Rows may take more steps on one device than on another: writing finds all weights, and asks for none."""
    modules = {path: module for path, module in model.named_modules() if isinstance(module, FSDPModule)}
    for module in modules.values():
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for path, module in modules.items():
            module.reshard()
            module.set_reshard_after_forward(bool(path), recurse=False)  # as fully_shard has it, the outermost not


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
    split = component.tensor_parallel_plan()
    if split is None:
        return
    plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in split.column_wise}
    plan |= {name: RowwiseParallel() for name in split.row_wise}
    parallelize_module(component, mesh, plan)
