"""The diagonal recurrence h_t = a_t h_{t-1} + b_t, every channel by itself (Martin and Cundy 2018,
https://arxiv.org/abs/1709.04057): a loop in place, hidden from autograd, with its backward pass by hand.

Mamba's selective scan (Gu and Dao 2023, https://arxiv.org/abs/2312.00752): only the states at the ends of chunks are
saved, from which the backward pass recomputes the others.

E inner channels, N states of each.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headtohead.components.precision import at_least_float32, without_autocast

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


CHUNK = 32
"""Tokens whose states exist at the same time."""


def selective_scan(
    x: Float[Tensor, "B L E"],
    step: Float[Tensor, "B L E"],
    A: Float[Tensor, "E N"],
    B: Float[Tensor, "B L N"],
    C: Float[Tensor, "B L N"],
    *,
    document_starts: Bool[Tensor, "B L"] | None = None,
    state: Float[Tensor, "B E N"] | None = None,
) -> tuple[Float[Tensor, "B L E"], Float[Tensor, "B E N"]]:
    """Return y_t = C_t h_t of h_t = exp(step_t A) h_{t-1} + step_t x_t B_t, and the last state, which carries no
    gradient."""
    form = _without_loop if torch.compiler.is_exporting() else _chunked
    y, last = form(in_float32(x), in_float32(step), in_float32(A), in_float32(B), in_float32(C), document_starts, state)
    return y.to(x.dtype), last


def _without_loop(
    x: Tensor, step: Tensor, A: Tensor, B: Tensor, C: Tensor, document_starts: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute all states at once, without a loop, as an exported graph requires."""
    decay = forgetting((step[..., None] * A).exp(), document_starts)
    h = scan(decay, (step * x)[..., None] * B[:, :, None], state)
    return (h @ C[..., None]).squeeze(-1), h[:, -1]


def chunks(length: int) -> list[slice]:
    return [slice(start, min(start + CHUNK, length)) for start in range(0, length, CHUNK)]


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _chunked(
    x: Tensor, step: Tensor, A: Tensor, B: Tensor, C: Tensor, document_starts: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    y, last = _SelectiveScan.apply(x, step, A, B, C, document_starts, state)  # type: ignore[no-untyped-call]
    return y, last


class _SelectiveScan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        step: Tensor,
        A: Tensor,
        B: Tensor,
        C: Tensor,
        document_starts: Tensor | None,
        state: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        batch, length, width = x.shape
        pieces = chunks(length)
        y, amount = torch.empty_like(x, memory_format=torch.contiguous_format), step * x
        marks = x.new_zeros(len(pieces) + 1, batch, width, A.shape[1])
        if state is not None:
            marks[0] = state
        room = _Workspace(x, A, number=2)
        with without_autocast(x):
            for index, piece in enumerate(pieces):
                _, h = room.states(piece, step, amount, A, B, document_starts, marks[index])
                y[:, piece] = (h @ C[:, piece, :, None]).squeeze(-1)
                marks[index + 1] = h[:, -1]
        last = marks[-1].clone()
        ctx.save_for_backward(x, step, A, B, C, document_starts, marks[:-1].clone())
        ctx.mark_non_differentiable(last)
        return y, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, step, A, B, C, document_starts, marks = ctx.saved_tensors
        amount = step * x
        by_amount, by_step = torch.empty_like(amount), torch.empty_like(amount)
        by_B, by_C = torch.empty_like(B), torch.empty_like(C)
        by_A, later = torch.zeros_like(A), torch.zeros_like(marks[0])
        room = _Workspace(x, A, number=3)
        ones = A.new_ones(A.shape[1])
        with without_autocast(x):
            for index, piece in reversed(list(enumerate(chunks(x.shape[1])))):
                decay, h = room.states(piece, step, amount, A, B, document_starts, marks[index])
                g = room.gradients(piece, grad, C, decay, later)
                by_C[:, piece] = (grad[:, piece, None] @ h).squeeze(2)
                by_B[:, piece] = (amount[:, piece, None] @ g).squeeze(2)
                by_amount[:, piece] = (g @ B[:, piece, :, None]).squeeze(-1)
                # The gradient by step_t A is g_t a_t h_{t-1}; where the first token's decay goes, so does `later`.
                by_exponent = g.mul_(decay)
                later = by_exponent[:, 0].clone()
                by_exponent[:, 1:].mul_(h[:, :-1])
                by_exponent[:, 0].mul_(marks[index])
                by_A += torch.mul(by_exponent, step[:, piece, :, None], out=h).sum((0, 1))
                by_step[:, piece] = by_exponent.mul_(A) @ ones
        by_step.addcmul_(by_amount, x)
        return by_amount.mul_(step), by_step, by_A, by_B, by_C, None, None


class _Workspace:
    """Memory for one chunk, used for every chunk: fresh memory costs more than the arithmetic in it."""

    def __init__(self, x: Tensor, A: Tensor, *, number: int) -> None:
        batch, length, width = x.shape
        self.parts = [x.new_empty(batch, min(CHUNK, length), width, A.shape[1]) for _ in range(number)]

    def states(
        self,
        piece: slice,
        step: Tensor,
        amount: Tensor,
        A: Tensor,
        B: Tensor,
        document_starts: Tensor | None,
        before: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return the decays and states of a chunk."""
        decay, h = (part[:, : piece.stop - piece.start] for part in self.parts[:2])
        torch.mul(step[:, piece, :, None], A, out=decay).exp_()
        if document_starts is not None:
            decay.masked_fill_(document_starts[:, piece, None, None], 0.0)
        torch.mul(amount[:, piece, :, None], B[:, piece, None], out=h)
        for a_t, h_t in zip(decay.unbind(1), h.unbind(1), strict=True):
            h_t.addcmul_(a_t, before)
            before = h_t
        return decay, h

    def gradients(self, piece: slice, grad: Tensor, C: Tensor, decay: Tensor, later: Tensor) -> Tensor:
        """Return g_t = grad_t C_t + a_{t+1} g_{t+1}, where `later` is the second term of the chunk's last token."""
        g = torch.mul(grad[:, piece, :, None], C[:, piece, None], out=self.parts[2][:, : decay.shape[1]])
        decays, gradients = decay.unbind(1), g.unbind(1)
        gradients[-1].add_(later)
        for t in range(len(decays) - 2, -1, -1):
            gradients[t].addcmul_(decays[t + 1], gradients[t + 1])
        return g
