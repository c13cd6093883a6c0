"""Activation checkpointing discards activations in the forward pass and recomputes them in the backward pass (Chen et
al. 2016, https://arxiv.org/abs/1604.06174); offloading moves them to the processor's memory meanwhile (Rhu et al. 2016,
https://arxiv.org/abs/1602.08124)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from headtohead.components.component import Context
from headtohead.components.first_values import with_values_out
from headtohead.errors import UsageError
from headtohead.ranges import Every

CheckpointingKind = Literal["none", "full", "every_k", "attention", "offload"]
Result = TypeVar("Result")
_recomputing: ContextVar[bool] = ContextVar("recomputing", default=False)


@dataclass(frozen=True)
class Checkpointing:
    """The policy. none: save everything; full: recompute every block; every_k: every k-th block; attention: the mixers
    alone; offload: save everything in the processor's memory."""

    kind: CheckpointingKind = "none"
    """The part that the backward pass recomputes: none, full (every block), every_k (every k-th block) or attention
    (the mixers alone); offload recomputes nothing and moves what blocks save to the processor's memory."""
    every: Every = 2
    """k of every_k: every k-th block, from the first on, is recomputed; unused by the other kinds."""

    def __post_init__(self) -> None:
        if self.kind not in (kinds := get_args(CheckpointingKind)):
            raise UsageError(f"checkpointing={self.kind} is unknown: choose {', '.join(kinds[:-1])} or {kinds[-1]}")
        if self.every < 1:
            raise UsageError(f"checkpointing.every={self.every} is not a period: choose 1 or more")

    def covers_block(self, index: int) -> bool:
        return self.kind == "full" or (self.kind == "every_k" and index % self.every == 0)

    def recomputes_mixer(self, index: int) -> bool:
        return self.kind == "attention" or self.covers_block(index)

    def num_unsaved_values(self, covered: Sequence[bool], device: str) -> int:
        """Return how many passes of a layer, of which some are covered, save on the device no values of its mixer."""
        saves_none = self.kind == "attention" or (self.kind == "offload" and device != "cpu")
        return len(covered) if saves_none else sum(covered)

    def passed(self, block: nn.Module, index: int, x: Tensor, context: Context) -> Tensor:
        """Return the output of the block of this index, which saves for the backward pass what the policy lets it."""
        if self.covers_block(index):
            return recompute_with_values(block, x, context)
        if self.kind == "offload":
            return offload(block, x, context)
        y: Tensor = block(x, context, recompute_mixers=self.kind == "attention")
        return y


def is_recomputing() -> bool:
    """Return whether this is the second forward pass, where side effects must not happen again."""
    # A compiled graph cannot read the mark; the stack refuses what would need it there.
    return not torch.compiler.is_compiling() and _recomputing.get()


@contextmanager
def _marked() -> Iterator[None]:
    token = _recomputing.set(True)
    try:
        yield
    finally:
        _recomputing.reset(token)


def _contexts() -> tuple[Any, Any]:
    return nullcontext(), _marked()


def recompute(function: Callable[..., Result], *inputs: Any) -> Result:
    """Return function(*inputs), recomputed in the backward pass."""
    if torch.compiler.is_compiling():
        y: Result = checkpoint(function, *inputs, use_reentrant=False)
    else:
        y = checkpoint(function, *inputs, use_reentrant=False, context_fn=_contexts)
    return y


def recompute_with_values(part: Callable[..., Tensor], x: Tensor, context: Context) -> Tensor:
    """Return part(x, context), recomputed in the backward pass; values for later layers are an output too, since a
    recomputed pass must not append them again."""
    if context.values_out is None:
        return recompute(part, x, context)
    y, values = recompute(with_values_out, part, x, context)
    context.values_out.append(values)
    return y


@dataclass(frozen=True)
class _OnHost:
    values: Tensor
    device: torch.device


def _to_host(tensor: Tensor) -> Tensor | _OnHost:
    """Copy in the order of the device's stream, so that nothing waits; what a processor computes is there already."""
    if tensor.device.type == "cpu":
        return tensor
    values = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
    return _OnHost(values.copy_(tensor, non_blocking=True), tensor.device)


def _from_host(saved: _OnHost) -> Tensor:
    return saved.values.to(saved.device, non_blocking=True)


def offload(
    block: nn.Module,
    x: Tensor,
    context: Context,
    *,
    away: Callable[[Tensor], object] = _to_host,
    back: Callable[..., Tensor] = _from_host,
) -> Tensor:
    """Return block(x, context), whose saved activations are moved away until the backward pass; weights, and what all
    blocks read of the context, stay. A tensor that two operations save is moved for each."""
    stays: set[int] = set()

    def pack(tensor: Tensor) -> object:
        if not stays:  # looked up within the forward pass, where FSDP has put gathered weights in the place of shards
            values = [getattr(context, field.name) for field in fields(context)]
            read = [value for value in (*values, *context.shared) if isinstance(value, Tensor)]
            stays.update(map(_storage, (*read, *block.parameters(), *block.buffers())))
        return tensor if _storage(tensor) in stays else away(tensor)

    with saved_tensors_hooks(pack, lambda saved: saved if isinstance(saved, Tensor) else back(saved)):
        y: Tensor = block(x, context)
    return y


def _storage(tensor: Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key
