"""Models and batches of fake tensors, which have shapes and no numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from headtohead.components.component import Context
from headtohead.data.batches.batch import Batch
from headtohead.estimates.work_meter import WorkMeter
from headtohead.tasks.chunked_cross_entropy import Workspace
from headtohead.training.loop.precision import Precision

_CPU = torch.device("cpu")


class PlannedWorkspace(Workspace):
    """The buffers of a loss on a device of another type, of whose chunks those that are alike are replayed once."""

    def __init__(self, meter: WorkMeter, device: str) -> None:
        super().__init__(planned_for=device)
        self._meter = meter

    def turns(self, bounds: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        return self._meter.turns(bounds)


@dataclass
class FakeHost:
    """The memory of another device, of which bytes alone are known: moved tensors die, and come back empty."""

    num_bytes: int = 0

    def away(self, tensor: Tensor) -> tuple[torch.Size, tuple[int, ...], torch.dtype]:
        self.num_bytes += byte_size(tensor)
        return tensor.shape, torch.empty_like(tensor, device="meta").stride(), tensor.dtype

    def back(self, moved: tuple[torch.Size, tuple[int, ...], torch.dtype]) -> Tensor:
        shape, strides, dtype = moved
        return torch.empty_strided(shape, strides, dtype=dtype, device=_CPU)


def byte_size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


@contextmanager
def fake_tensors(precision: Precision) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(_MODE)
        stack.enter_context(precision.on("cpu").autocast("cpu"))
        yield


_MODE = FakeTensorMode(allow_non_fake_inputs=True)


def forget_values(model: nn.Module) -> None:
    """Replace all weights and buffers by fake ones of the processor; a weight that is used twice stays one."""
    made: dict[int, Tensor] = {}

    def fake(tensor: Tensor) -> Tensor:
        if id(tensor) not in made:
            empty = torch.empty(tensor.shape, dtype=tensor.dtype, device=_CPU)
            is_weight = isinstance(tensor, nn.Parameter)
            made[id(tensor)] = nn.Parameter(empty, requires_grad=tensor.requires_grad) if is_weight else empty
        return made[id(tensor)]

    originals = []
    with _MODE:
        for module in model.modules():
            for held in (module._parameters, module._buffers):
                for name, tensor in held.items():
                    if tensor is not None:
                        originals.append(tensor)
                        held[name] = fake(tensor)  # type: ignore[assignment]


def resized_batch(batch: Batch, rows: int, length: int) -> Batch:
    """Return a fake batch of the same kind with so many rows of so many tokens."""
    own = batch.tokens.shape[1] if batch.tokens is not None else 0

    def resized(tensor: Tensor) -> Tensor:
        shape = [length if own and size == own and axis else size for axis, size in enumerate(tensor.shape)]
        if shape and shape[0] == batch.num_samples:
            shape[0] = rows
        return torch.empty(shape, dtype=tensor.dtype, device=_CPU)

    questions = None if batch.questions is None else batch.questions[:1] * rows
    return replace(batch.map(resized), questions=questions)


def handing_on(path: str, blocks: dict[str, tuple[Tensor, Context]]) -> Callable[..., Tensor]:
    """Return a forward pass that notes what the block reads, and hands it on."""

    def forward(x: Tensor, context: Context, *, recompute_mixers: bool = False) -> Tensor:
        del recompute_mixers
        blocks[path] = (x, context)
        return x

    return forward


def with_gradients(context: Context, *, of_memory: bool) -> Context:
    """Return the context with leaves in place of what a model would differentiate."""
    changed = {}
    if context.memory is not None:
        changed["memory"] = context.memory.detach().requires_grad_(of_memory)
    if context.bias is not None and context.encoding is not None and context.encoding.bias_learns:
        changed["bias"] = context.bias.detach().requires_grad_(context.bias.requires_grad)
    return replace(context, **changed)  # type: ignore[arg-type]


def tensors_of(inputs: object) -> Iterator[Tensor]:
    """Yield all tensors in tuples and in the fields of records."""
    if isinstance(inputs, Tensor):
        yield inputs
    elif isinstance(inputs, list | tuple):
        for part in inputs:
            yield from tensors_of(part)
    elif is_dataclass(inputs):
        for field in fields(inputs):
            yield from tensors_of(getattr(inputs, field.name))
