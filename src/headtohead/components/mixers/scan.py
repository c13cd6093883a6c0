"""The diagonal recurrence h_t = a_t h_{t-1} + b_t, every channel by itself (Martin and Cundy 2018,
https://arxiv.org/abs/1709.04057): a loop in place, which autograd does not see, with its backward pass by hand."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

EXPORTED_DOUBLINGS = 16
"""An exported graph holds no loop over a length that it does not know; it combines spans of 2^0 ... 2^15 tokens."""


def scan(
    a: Float[Tensor, "B L *C"], b: Float[Tensor, "B L *C"], start: Float[Tensor, " B *C"] | None = None
) -> Float[Tensor, "B L *C"]:
    """All states of the recurrence, whose state before the first token is `start`, or zero."""
    if torch.compiler.is_exporting():
        return _by_doubling(a, b, start)
    y: Tensor = _in_place(a, b, start)
    return y


def forgetting(a: Float[Tensor, "B L *C"], begins: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L *C"]:
    """Decays that leave nothing of what was before a document's first token."""
    return a if begins is None else a.masked_fill(begins.view(*begins.shape, *[1] * (a.dim() - 2)), 0.0)


def full_precision(tensor: Tensor) -> AbstractContextManager[object]:
    """Autocast off, where there is one: exponentials and long sums want all the bits their tensors have."""
    kind = tensor.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def exact(tensor: Tensor) -> Tensor:
    """In float32 at least."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _in_place(a: Tensor, b: Tensor, start: Tensor | None) -> Tensor:
    h: Tensor = _Scan.apply(a, b, start)  # type: ignore[no-untyped-call]
    return h


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, start: Tensor | None) -> Tensor:
        h = torch.empty_like(b, memory_format=torch.contiguous_format)
        before = torch.zeros_like(b[:, 0]) if start is None else start
        for a_t, b_t, h_t in zip(a.unbind(1), b.unbind(1), h.unbind(1), strict=True):
            torch.addcmul(b_t, a_t, before, out=h_t)
            before = h_t
        ctx.save_for_backward(a, h, start)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """g_t = grad_t + a_{t+1} g_{t+1} is the gradient by b_t; by a_t it is g_t h_{t-1}."""
        a, h, start = ctx.saved_tensors
        g = grad.clone(memory_format=torch.contiguous_format)
        decays, gradients = a.unbind(1), g.unbind(1)
        for t in range(len(decays) - 2, -1, -1):
            gradients[t].addcmul_(decays[t + 1], gradients[t + 1])
        by_a = torch.empty_like(g)
        torch.mul(g[:, 1:], h[:, :-1], out=by_a[:, 1:])
        by_a[:, 0] = 0.0 if start is None else g[:, 0] * start
        return by_a, g, None if start is None else g[:, 0] * a[:, 0]


def _by_doubling(a: Tensor, b: Tensor, start: Tensor | None) -> Tensor:
    """Spans of one token, then of two, of four ...: as many steps whatever the length (Hillis and Steele 1986,
    https://doi.org/10.1145/7902.7903)."""
    if start is not None:
        b = torch.cat((torch.addcmul(b[:, :1], a[:, :1], start.unsqueeze(1)), b[:, 1:]), dim=1)
    for doubling in range(EXPORTED_DOUBLINGS):
        earlier_a, earlier_b = (_later(t, 2**doubling) for t in (a, b))
        b = torch.addcmul(b, a, earlier_b)
        a = a * earlier_a
    return b


def _later(x: Tensor, by: int) -> Tensor:
    """Moved along the sequence; zeros come in."""
    source = torch.arange(x.shape[1], device=x.device) - by
    is_there = (source >= 0).view(-1, *[1] * (x.dim() - 2))
    return x.index_select(1, source.clamp(min=0)) * is_there
