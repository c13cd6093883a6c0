"""Define the subject of the laws: a stack, how to build it, and what is known of it beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.block_parts import Branches, FeedForward, NormFactory, ResidualScheme, Sublayer
from headtohead.components.component import Context, CrossFactory, MixerFactory, PositionFactory
from headtohead.components.costs import CostContext, Costs
from headtohead.components.norms import BatchNorm, NoNorm
from headtohead.components.positions.absolute import NoPosition
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackParts, StackSize


class LawBroken(AssertionError):  # noqa: N818 - it reads as what happened
    """The message is one sentence that says what should have held."""


@dataclass(frozen=True)
class LawSubject:
    """A stack under examination. Every law makes it again, with the same seed."""

    make: Callable[[], Stack]
    make_slow: Callable[[], Stack] | None = None
    """The same with the slow twins of its mixers; None where there are none."""
    dtype: torch.dtype = torch.float64
    sees_others_in_training: bool = False
    """Batch norm: a token's output depends on other tokens, later ones too, in training mode."""
    num_rows: int = 3
    length: int = 11
    memory_length: int = 5

    def build(self, *, seed: int = 0, slow: bool = False) -> Stack:
        """Build the stack in evaluation mode, every parameter moved off the neutral value that would hide a swap."""
        make = self.make_slow if slow and self.make_slow is not None else self.make
        torch.manual_seed(seed)
        stack = make()
        with torch.no_grad():
            for tensor in stack.state_dict().values():
                if tensor.is_floating_point():
                    tensor.add_(0.2 * torch.rand_like(tensor) - 0.1)
        stack = stack.to(self.dtype)
        if self.sees_others_in_training:
            self._prepare_statistics(stack)
        return stack.eval()

    def _prepare_statistics(self, stack: Stack) -> None:
        """Running statistics as training leaves them: arbitrary ones let numbers grow from layer to layer."""
        norms = [module for module in stack.modules() if isinstance(module, BatchNorm)]
        usual = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 1.0
        with torch.no_grad():
            stack.train()(*self.inputs(stack))
        for norm, momentum in zip(norms, usual, strict=True):
            norm.momentum = momentum

    def inputs(self, stack: Stack, *, seed: int = 1) -> tuple[Float[Tensor, "B L D"], Context]:
        """Random tokens, and a random memory where one is read."""
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(self.num_rows, self.length, stack.d_model, generator=generator, dtype=torch.float64)
        memory = torch.randn(self.num_rows, self.memory_length, stack.d_model, generator=generator, dtype=torch.float64)
        return x.to(self.dtype), Context(memory=memory.to(self.dtype) if stack.has_cross else None)

    def with_dtype(self, dtype: torch.dtype) -> LawSubject:
        return replace(self, dtype=dtype)


TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 1e-1}


def difference(actual: Tensor, expected: Tensor, scale: float | None = None) -> float:
    """Return the largest difference, in units of `scale` or else of the largest expected number."""
    unit = float(expected.detach().abs().max()) if scale is None else scale
    return float((actual.detach() - expected.detach()).abs().max()) / max(unit, 1e-30)


def require_equal(
    actual: Tensor, expected: Tensor, message: str, *, tolerance: float | None = None, scale: float | None = None
) -> None:
    """Equal to rounding, in units of `scale` or else of the largest expected number; NaN equals nothing."""
    if actual.shape != expected.shape:
        raise LawBroken(f"{message}: shapes {tuple(actual.shape)} and {tuple(expected.shape)} differ")
    limit = TOLERANCES[expected.dtype] if tolerance is None else tolerance
    distance = difference(actual, expected, scale)
    if not distance <= limit:
        raise LawBroken(f"{message}: the difference is {distance:.1e} of the largest value, {limit:.0e} is allowed")


def require_different(actual: Tensor, expected: Tensor, message: str) -> None:
    """Different by far more than rounding."""
    distance = difference(actual, expected)
    if not distance > 1e-6:
        raise LawBroken(f"{message}: the difference is only {distance:.1e} of the largest value")


class BareResidual(ResidualScheme):
    """No stream at all: one sublayer after the other, the feed-forward left out."""

    needs_final_norm = False

    def __init__(self, norm: NormFactory, d_model: int, branches: Branches) -> None:
        super().__init__()
        del norm, d_model, branches

    def forward(
        self, x: Float[Tensor, "B L D"], sublayers: Sequence[Sublayer], context: Context
    ) -> Float[Tensor, "B L D"]:
        del context
        for sublayer in sublayers:
            x = sublayer(x)
        return x

    def costs(self, query: CostContext) -> Costs:
        del query
        return Costs()


class PassThrough(FeedForward):
    """Gives what it gets."""

    def __init__(self, d_model: int, *, dropout: float) -> None:
        super().__init__()
        del d_model, dropout

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        del context
        return x

    def costs(self, query: CostContext) -> Costs:
        del query
        return Costs()


def alone(
    mixer: MixerFactory,
    *,
    causal: bool,
    cross: CrossFactory | None = None,
    position: PositionFactory = NoPosition,
    d_model: int = 16,
    num_heads: int = 4,
    max_length: int = 64,
) -> partial[Stack]:
    """Makes a stack of nothing but one mixer (and one cross mixer), so that a law about stacks is one about it."""
    parts = StackParts(mixer=mixer, position=position, norm=NoNorm, residual=BareResidual, feedforward=PassThrough)
    size = StackSize(d_model, num_layers=1, num_heads=num_heads)
    return partial(Stack, size, parts, cross=cross, causal=causal, max_length=max_length)
