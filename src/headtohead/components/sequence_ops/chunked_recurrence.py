"""Linear recurrences with decay, and with a delta rule, over chunks of tokens instead of tokens (Yang et al. 2023,
https://arxiv.org/abs/2312.06635; Yang et al. 2024, https://arxiv.org/abs/2406.06484):

    S_t = exp(g_t) S_(t-1) + k_t v_t^T + p_t z_t^T,  z_t = r_t^T exp(g_t) S_(t-1),  o_t = q_t^T S_t

Inside a chunk all is products of matrices, and the inverse of a triangular matrix for z; a loop goes over chunks
alone. Where what is read is written at the token's own key, p = k, and z_t stands for v_t + r_t^T exp(g_t) S_(t-1).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.recurrence_chunks import Segment, Solution, Tokens
from headtohead.components.sequence_ops.scan import recur_by_doubling
from headtohead.errors import UsageError

LARGEST_CHUNK = 128
"""Tokens of a chunk, above which a decay that counts as bounded could overflow."""
SEGMENT = 128
"""Tokens of whose chunks everything is made at once, and made again for the gradients: few enough for a cache."""
SOLUTIONS_SAVED = 512
"""Tokens up to which solutions and the states between chunks are saved, and not made again."""


def recur(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B H L K"],
    v: Float[Tensor, "B H L V"],
    log_decay: Float[Tensor, "B H L #K"],
    *,
    reads: Float[Tensor, "B H L K"] | None = None,
    writes: Float[Tensor, "B H L K"] | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
    starts: Bool[Tensor, "B L"] | None = None,
    chunk_size: int,
) -> tuple[Float[Tensor, "B H L V"], Float[Tensor, "B H K V"]]:
    """Return the outputs, and the state after the last token, in float32 at least; `starts` marks the tokens before
    which the state is forgotten.

    The decays of a delta rule are one for all channels, or none stronger than exp(-0.7).
    """
    exact = at_least_float32(v.dtype)
    state = None if state is None else state.to(exact)
    with without_autocast(v):
        if torch.compiler.is_exporting():
            q, k, v, log_decay = (part.to(exact) for part in (q, k, v, log_decay))
            reads, writes = (None if part is None else part.to(exact) for part in (reads, writes))
            return recur_by_doubling(q, k, v, log_decay, reads=reads, writes=writes, state=state, starts=starts)
        if state is None:
            state = v.new_zeros(*v.shape[:2], q.shape[-1], v.shape[-1], dtype=exact)
        inputs = (q, k, v, log_decay, reads, writes, starts, state, chunk_length(q.shape[2], chunk_size))
        outputs: tuple[Tensor, Tensor] = _in_segments(*inputs)
        return outputs


def recur_once(
    q: Float[Tensor, "B H 1 K"],
    k: Float[Tensor, "B H 1 K"],
    v: Float[Tensor, "B H 1 V"],
    log_decay: Float[Tensor, "B H 1 #K"],
    state: Float[Tensor, "B H K V"],
    *,
    reads: Float[Tensor, "B H 1 K"] | None = None,
    writes: Float[Tensor, "B H 1 K"] | None = None,
) -> tuple[Float[Tensor, "B H 1 V"], Float[Tensor, "B H K V"]]:
    """Compute the recurrence itself, for one token, in the state's dtype."""
    q, k, v = (t.to(state.dtype) for t in (q, k, v))
    with without_autocast(state):
        state = state * log_decay.to(state.dtype).exp().mT
        if reads is not None:
            read = reads.to(state.dtype) @ state
            state = state + k.mT @ (v + read) if writes is None else state + writes.to(state.dtype).mT @ read
        if reads is None or writes is not None:
            state = state + k.mT @ v
        return q @ state, state


def checked_chunk_size(chunk_size: int) -> int:
    """Check that the chunk size is a power of two within the range of float32."""
    if not 1 <= chunk_size <= LARGEST_CHUNK or chunk_size & (chunk_size - 1):
        raise UsageError(f"chunk_size={chunk_size} is not a power of two up to {LARGEST_CHUNK}: use 32")
    return chunk_size


def chunk_length(length: int, chunk_size: int) -> int:
    """Return the chunk length, no longer than needed."""
    return min(chunk_size, 1 << (length - 1).bit_length())


def saved_elements(length: int, chunk_size: int, *, memory: int, solved: int = 0) -> int:
    """Return how many numbers `recur` saves besides its inputs, of matrices of so many numbers, and of so many unknowns
    of each token."""
    chunk, segments = chunk_length(length, chunk_size), len(_segments(length))
    chunks = -(-length // chunk)
    if length <= SOLUTIONS_SAVED:
        return (chunks + segments) * memory + chunks * chunk * solved
    return segments * memory


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _in_segments(*inputs: Tensor | int | None) -> tuple[Tensor, Tensor]:
    outputs: tuple[Tensor, Tensor] = _Recurrence.apply(*inputs)  # type: ignore[no-untyped-call]
    return outputs


class _Recurrence(torch.autograd.Function):
    """The recurrence with a backward pass by hand: it saves its inputs, in their own formats, and the states between
    segments; all else is made again, a segment at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L V"],
        log_decay: Float[Tensor, "B H L E"],
        reads: Float[Tensor, "B H L K"] | None,
        writes: Float[Tensor, "B H L K"] | None,
        starts: Bool[Tensor, "B L"] | None,
        state: Float[Tensor, "B H K V"],
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        tokens, before = Tokens(q, k, v, log_decay, reads, writes, starts), state.flatten(0, 1)
        y = torch.empty_like(v, dtype=state.dtype)
        saved: list[Tensor | None] = []
        for cut in _segments(v.shape[2]):
            segment = Segment.of(tokens, cut, chunk, state.dtype)
            solution = segment.solve(before)
            segment.read(solution, y[:, :, cut])
            saved += solution if v.shape[2] <= SOLUTIONS_SAVED else (before,)
            before = solution.states[-1].clone()
        ctx.save_for_backward(*tokens, *saved)
        ctx.chunk, ctx.exact = chunk, state.dtype
        return y, before.view_as(state)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        tokens, rest = Tokens(*saved[:7]), saved[7:]
        by_tokens = [None if part is None else torch.empty_like(part) for part in tokens[:6]]
        by_state, cuts = grad_last.flatten(0, 1), _segments(grad.shape[2])
        with without_autocast(grad):
            for number, cut in reversed(list(enumerate(cuts))):
                segment = Segment.of(tokens, cut, ctx.chunk, ctx.exact)
                solution = segment.solve(rest[number]) if len(rest) == len(cuts) else Solution(*rest[3 * number :][:3])
                into = [None if part is None else part[:, :, cut] for part in by_tokens]
                by_state = segment.gradients(solution, grad[:, :, cut], by_state, into)
        return *by_tokens, None, by_state.view_as(grad_last), None


def _segments(length: int) -> list[slice]:
    return [slice(start, start + SEGMENT) for start in range(0, length, SEGMENT)]
