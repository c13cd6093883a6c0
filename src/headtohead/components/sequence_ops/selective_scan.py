"""Mamba's selective scan (Gu and Dao 2023, https://arxiv.org/abs/2312.00752): only the states at the ends of chunks are
saved, from which the backward pass recomputes the others.

E inner channels, N states of each.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headtohead.components.precision import without_autocast
from headtohead.components.sequence_ops.scan import forgetting, in_float32, scan

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
