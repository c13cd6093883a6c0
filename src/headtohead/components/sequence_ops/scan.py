"""The diagonal recurrence h_t = a_t h_{t-1} + b_t, every channel by itself (Martin and Cundy 2018,
https://arxiv.org/abs/1709.04057): a loop in place, hidden from autograd, with its backward pass by hand."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headtohead.components.precision import at_least_float32

EXPORTED_DOUBLINGS = 16
"""An exported graph holds no loop over a length that it does not know; it combines spans of 2^0 ... 2^15 tokens."""


def scan(
    a: Float[Tensor, "B L *C"], b: Float[Tensor, "B L *C"], start: Float[Tensor, " B *C"] | None = None
) -> Float[Tensor, "B L *C"]:
    """Return all states of the recurrence, whose state before the first token is `start`, or zero."""
    if torch.compiler.is_exporting():
        return _by_doubling(a, b, start)
    y: Tensor = _in_place(a, b, start)
    return y


def forgetting(a: Float[Tensor, "B L *C"], document_starts: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L *C"]:
    """Set the decays at document starts to zero, so that nothing of earlier documents is left."""
    return (
        a
        if document_starts is None
        else a.masked_fill(document_starts.view(*document_starts.shape, *[1] * (a.dim() - 2)), 0.0)
    )


def in_float32(tensor: Tensor) -> Tensor:
    """Convert to float32 at least."""
    return tensor.to(at_least_float32(tensor.dtype))


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
        """Return the gradients: g_t = grad_t + a_{t+1} g_{t+1} by b_t, and g_t h_{t-1} by a_t."""
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
    """Combine spans of one token, then of two, of four ...: the same number of steps whatever the length (Hillis and
    Steele 1986, https://doi.org/10.1145/7902.7903)."""
    if start is not None:
        b = torch.cat((torch.addcmul(b[:, :1], a[:, :1], start.unsqueeze(1)), b[:, 1:]), dim=1)
    for doubling in range(EXPORTED_DOUBLINGS):
        earlier_a, earlier_b = (_later(t, 2**doubling) for t in (a, b))
        b = torch.addcmul(b, a, earlier_b)
        a = a * earlier_a
    return b


def _later(x: Tensor, by: int) -> Tensor:
    """Shift along the sequence; zeros come in."""
    source = torch.arange(x.shape[1], device=x.device) - by
    is_there = (source >= 0).view(-1, *[1] * (x.dim() - 2))
    return x.index_select(1, source.clamp(min=0)) * is_there


# Recurrences of matrices without a loop over tokens or chunks, for exported graphs, which do not know the length: what
# two spans do to a state, one after the other, is again a matrix times the state plus another one.


def recur_by_doubling(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B H L K"],
    v: Float[Tensor, "B H L V"],
    log_decay: Float[Tensor, "B H L #K"],
    *,
    reads: Float[Tensor, "B H L K"] | None,
    writes: Float[Tensor, "B H L K"] | None,
    state: Float[Tensor, "B H K V"] | None,
    starts: Bool[Tensor, "B L"] | None,
) -> tuple[Float[Tensor, "B H L V"], Float[Tensor, "B H K V"]]:
    """Compute `recur` with every token's matrix in memory at once, which suits the lengths of decoding and serving."""
    decay = log_decay.exp()
    if starts is not None:
        decay = decay * ~starts[:, None, :, None]
    turn = torch.diag_embed(decay.expand_as(k))
    if reads is not None:
        turn = turn + (k if writes is None else writes)[..., None] * (reads * decay)[..., None, :]
    states = k[..., None] * v[..., None, :]
    for doubling in range(EXPORTED_DOUBLINGS):
        span = 2**doubling
        states = states + turn @ _earlier_state(states, span)
        turn = turn @ _earlier_state(turn, span, itself=True)
    if state is not None:
        states = states + turn @ state[:, :, None]
    return (q[..., None, :] @ states).squeeze(-2), states[:, :, -1]


def _earlier_state(x: Float[Tensor, "B H L K E"], span: int, *, itself: bool = False) -> Float[Tensor, "B H L K E"]:
    """Return the state `span` tokens earlier; before the first token states are zero, and transitions the identity."""
    source = torch.arange(x.shape[2], device=x.device) - span
    earlier, is_there = x.index_select(2, source.clamp(min=0)), (source >= 0)[:, None, None]
    nothing = torch.eye(x.shape[-1], device=x.device, dtype=x.dtype) if itself else x.new_zeros(())
    return torch.where(is_there, earlier, nothing)
