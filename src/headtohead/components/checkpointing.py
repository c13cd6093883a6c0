"""Activation checkpointing discards activations in the forward pass and recomputes them in the backward pass (Chen et
al. 2016, https://arxiv.org/abs/1604.06174)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from headtohead.errors import UsageError
from headtohead.ranges import Every

_recomputing: ContextVar[bool] = ContextVar("recomputing", default=False)


@dataclass(frozen=True)
class Checkpointing:
    """The policy. none: save everything; full: recompute every block; every_k: every k-th block; attention: the mixers
    alone."""

    kind: Literal["none", "full", "every_k", "attention"] = "none"
    """The part that the backward pass recomputes: none, full (every block), every_k (every k-th block) or attention
    (the mixers alone)."""
    every: Every = 2
    """k of every_k: every k-th block, from the first on, is recomputed; unused by the other kinds."""

    def __post_init__(self) -> None:
        if self.kind not in ("none", "full", "every_k", "attention"):
            raise UsageError(f"checkpointing={self.kind} is unknown: choose none, full, every_k or attention")
        if self.every < 1:
            raise UsageError(f"checkpointing.every={self.every} is not a period: choose 1 or more")

    def covers_block(self, index: int) -> bool:
        return self.kind == "full" or (self.kind == "every_k" and index % self.every == 0)


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


def recompute(function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """Return function(*inputs), recomputed in the backward pass."""
    if torch.compiler.is_compiling():
        y: Tensor = checkpoint(function, *inputs, use_reentrant=False)
    else:
        y = checkpoint(function, *inputs, use_reentrant=False, context_fn=_contexts)
    return y
