"""Models and batches of fake tensors, which have shapes and no numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from headtohead.components.component import Context
from headtohead.components.first_values import mixing_parts
from headtohead.components.without_memory import Packing
from headtohead.data.batches.batch import IGNORED, Batch
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


class _Like(Protocol):
    """A backward pass knows this of its output."""

    like: tuple[torch.Size, torch.dtype, torch.device]


class _Differentiated(torch.autograd.Function):
    """A number of which a tensor's gradient is there when the backward pass comes to it, and held by nobody else."""

    @staticmethod
    def forward(ctx: _Like, output: Tensor) -> Tensor:
        ctx.like = (output.shape, output.dtype, output.device)
        return output.new_empty(())

    @staticmethod
    def backward(ctx: _Like, *gradients: Tensor) -> Tensor:
        del gradients
        shape, dtype, device = ctx.like
        return torch.empty(shape, dtype=dtype, device=device)


def differentiated(output: Tensor) -> Tensor:
    """Return a number whose backward pass is that of the output, given a gradient of the output."""
    number: Tensor = _Differentiated.apply(output)  # type: ignore[no-untyped-call]
    return number


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


Note = Callable[[str, Tensor, Context], object]
"""A function of a block's path and of what the block reads."""


def pass_through(path: str, block: nn.Module, note: Note) -> Callable[..., Tensor]:
    """Return a forward pass that notes what the block reads and returns it; where later blocks read the values of this
    one, empty values stand for them."""

    def forward(x: Tensor, context: Context, *, recompute_mixers: bool = False) -> Tensor:
        del recompute_mixers
        note(path, x, context)
        if context.values_out is not None:
            context.values_out.append(mixing_parts(block)[0].values_like(x).requires_grad_(x.requires_grad))
        return x if x.requires_grad else torch.empty_like(x)  # what no gradient asks for is not kept beside the output

    return forward


def with_gradients(context: Context, *, of_memory: bool) -> Context:
    """Return the context with leaves in place of what a model would differentiate."""
    changed = {}
    if context.memory is not None:
        changed["memory"] = context.memory.detach().requires_grad_(of_memory)
    if context.bias is not None and context.encoding is not None and context.encoding.bias_learns:
        changed["bias"] = context.bias.detach().requires_grad_(context.bias.requires_grad)
    shared = tuple(vectors.detach().requires_grad_(vectors.requires_grad) for vectors in context.shared)
    if context.first_values is not None:
        changed["first_values"] = context.first_values.detach().requires_grad_(context.first_values.requires_grad)
    values_out: list[Tensor] | None = None if context.values_out is None else []
    return replace(context, shared=shared, values_out=values_out, **changed)  # type: ignore[arg-type]


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


def scored_share(batch: Batch) -> float:
    """Return the share of tokens that a batch's loss scores."""
    return 1.0 if batch.targets is None else float((batch.targets != IGNORED).double().mean())


def packing_of(batch: Batch) -> Packing:
    """Return how documents are packed into the rows of a batch."""
    if batch.segments is None:
        return Packing()
    rows, length = batch.segments.shape
    runs = [torch.unique_consecutive(row, return_counts=True)[1] for row in batch.segments]
    return Packing(sum(map(len, runs)) / rows, max(int(run.max()) for run in runs) / length)
