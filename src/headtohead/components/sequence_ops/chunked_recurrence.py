"""Linear recurrences with decay, and with a delta rule, over chunks of tokens instead of tokens (Yang et al. 2023,
https://arxiv.org/abs/2312.06635; Yang et al. 2024, https://arxiv.org/abs/2406.06484):

    S_t = exp(g_t) S_(t-1) + k_t v_t^T + p_t z_t^T,  z_t = r_t^T exp(g_t) S_(t-1),  o_t = q_t^T S_t

Inside a chunk all is products of matrices, and the inverse of a triangular matrix for z; a loop goes over chunks
alone. Where what is read is written at the token's own key, p = k, and z_t stands for v_t + r_t^T exp(g_t) S_(t-1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.decays import (
    AnyDecay,
    BoundedDecay,
    Decay,
    SharedDecay,
    fits_in_float32,
    ones_up_to,
)
from headtohead.components.sequence_ops.scan import recur_by_doubling
from headtohead.components.sequence_ops.triangular_inverse import inverse_of_one_minus
from headtohead.errors import UsageError

LARGEST_CHUNK = 128
"""Tokens of a chunk, above which a decay that counts as bounded could overflow."""


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
    q, k, v, log_decay = (part.to(exact) for part in (q, k, v, log_decay))
    reads, writes, state = (None if part is None else part.to(exact) for part in (reads, writes, state))
    with without_autocast(v):
        if torch.compiler.is_exporting():
            return recur_by_doubling(q, k, v, log_decay, reads=reads, writes=writes, state=state, starts=starts)
        queries = (q,) if reads is None else (q, reads)
        keys = (k,) if writes is None else (writes, k)
        size = chunk_length(q.shape[2], chunk_size)
        outputs: tuple[Tensor, Tensor] = _in_chunks(queries, keys, v, log_decay, state, starts, size)
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


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _in_chunks(
    queries: tuple[Tensor, ...],
    keys: tuple[Tensor, ...],
    v: Tensor,
    log_decay: Tensor,
    state: Tensor | None,
    starts: Tensor | None,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    rows = v.shape[:2]
    together = (torch.stack([_split_into_chunks(part, chunk) for part in parts], dim=2) for parts in (queries, keys))
    document = (
        None
        if starts is None
        else _split_into_chunks(starts[:, None, :, None].long().expand(*rows, -1, -1), chunk).cumsum(-2)
    )
    if state is None:
        state = v.new_zeros(*rows, queries[0].shape[-1], v.shape[-1])
    inputs = (*together, _split_into_chunks(v, chunk).contiguous(), _split_into_chunks(log_decay, chunk).contiguous())
    y, state = _Recurrence.apply(*inputs, state.flatten(0, 1), document)  # type: ignore[no-untyped-call]
    return y.movedim(0, 1).flatten(1, 2)[:, : v.shape[2]].unflatten(0, rows), state.unflatten(0, rows)


def _split_into_chunks(x: Tensor, chunk: int) -> Tensor:
    """Reshape x[B, H, L, E] to [N, G, C, E]: the chunks of G = B H sequences one after the other, padded with zeros."""
    missing = -x.shape[2] % chunk
    y: Tensor = (F.pad(x, (0, 0, 0, missing)) if missing else x).flatten(0, 1).unflatten(1, (-1, chunk)).movedim(1, 0)
    return y


@dataclass(frozen=True)
class _RecurrenceChunks:
    """The quantities of chunks that do not depend on their states; M = N G matrices of each kind."""

    decay: Decay
    num: int
    """N."""
    size: int
    """C."""

    @classmethod
    def of(cls, queries: Tensor, keys: Tensor, log_decay: Tensor, document: Tensor | None) -> _RecurrenceChunks:
        num, size, is_delta = len(queries), queries.shape[-2], queries.shape[2] == 2
        sums = (ones_up_to(log_decay) @ log_decay).flatten(0, 1)
        queries, keys = queries.flatten(0, 1), keys.flatten(0, 1)
        document = None if document is None else document.flatten(0, 1)
        if log_decay.shape[-1] == 1:
            return cls(SharedDecay(queries, keys, sums, document), num, size)
        if is_delta or fits_in_float32(log_decay, sums):
            return cls(BoundedDecay(queries, keys, sums, document, num), num, size)
        return cls(AnyDecay(queries, keys, sums, document), num, size)

    @property
    def scores(self) -> Float[Tensor, "M C QC"]:
        return self.decay.scores[:, : self.size]

    @property
    def read(self) -> Float[Tensor, "M C K"]:
        return self.decay.read[:, : self.size]

    @property
    def written_keys(self) -> Float[Tensor, "N G C K"]:
        """Return the decayed keys at which z is written."""
        y: Tensor = self.decay.carried[:, : self.size].unflatten(0, (self.num, -1))
        return y

    @cached_property
    def solving(self) -> Float[Tensor, "M C C"]:
        """Return the inverse that turns z as it would be without earlier writes in the chunk into z."""
        return inverse_of_one_minus(self.decay.scores[:, self.size :, : self.size])

    def solve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return z without the state before the chunk, and the w with which the state adds to it: z + w S."""
        own = v if self.decay.kinds[1] == 1 else self.decay.scores[:, self.size :, self.size :] @ v
        z, w = self.solving @ own, self.solving @ self.decay.read[:, self.size :]
        return z.unflatten(0, (self.num, -1)), w.unflatten(0, (self.num, -1))

    def values(self, z: Tensor | None, v: Tensor) -> Float[Tensor, "M QC V"]:
        """Return all values that are written."""
        if z is None:
            return v
        return z.flatten(0, 1) if self.decay.kinds[1] == 1 else torch.cat((z.flatten(0, 1), v), dim=-2)

    def by_chunk(self, factor: Tensor | None) -> list[Tensor] | list[None]:
        return [None] * self.num if factor is None else list(factor.unflatten(0, (self.num, -1)).unbind(0))

    def forwards(self, state: Tensor, v: Tensor, z: Tensor | None, w: Tensor | None) -> Float[Tensor, "S G K V"]:
        """Return the states at the start of every chunk, and the one after the last; z is completed in place."""
        own: list[Tensor] | list[None] = [None] * self.num
        if z is None or self.decay.kinds[1] == 2:
            own = self.by_chunk(self.decay.carried[:, -self.size :].mT @ v)
        states = v.new_empty(self.num + 1, *state.shape)
        states[0] = state if self.decay.entering is None else state * self.decay.entering[0]
        keys = self.written_keys
        passing, leaving = self.by_chunk(self.decay.passing), self.by_chunk(self.decay.leaving)
        for chunk in range(self.num):
            now, added, passed = states[chunk], own[chunk], passing[chunk]
            new = torch.mul(now, 1.0 if passed is None else passed, out=states[chunk + 1])
            if added is not None:
                new += added
            if z is not None and w is not None:
                z[chunk].baddbmm_(w[chunk], now)
                new.baddbmm_(keys[chunk].mT, z[chunk])
            if (leave := leaving[chunk]) is not None:
                new *= leave
        return states

    def backwards(self, by_last: Tensor, by_before: Tensor, by_z: Tensor, w: Tensor | None) -> Float[Tensor, "S G K V"]:
        """Return the gradients of these states; by_z is completed in place."""
        grads = by_last.new_empty(self.num + 1, *by_last.shape)
        grads[self.num] = by_last
        keys, one = self.written_keys, by_last.new_ones(())
        passing, leaving = self.by_chunk(self.decay.passing), self.by_chunk(self.decay.leaving)
        for chunk in reversed(range(self.num)):
            leave, passed = leaving[chunk], passing[chunk]
            after = grads[chunk + 1] if leave is None else grads[chunk + 1] * leave
            new = torch.addcmul(by_before[chunk], after, one if passed is None else passed, out=grads[chunk])
            if w is not None:
                by_z[chunk].baddbmm_(keys[chunk], after)
                new.baddbmm_(w[chunk].mT, by_z[chunk])
        return grads


class _Recurrence(torch.autograd.Function):
    """The recurrence with a backward pass by hand: it saves the solutions, and the states between chunks; scores are
    recomputed."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Float[Tensor, "N G P C K"],
        keys: Float[Tensor, "N G Q C K"],
        v: Float[Tensor, "N G C V"],
        log_decay: Float[Tensor, "N G C E"],
        state: Float[Tensor, "G K V"],
        document: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        chunks, rows = _RecurrenceChunks.of(queries, keys, log_decay, document), v.flatten(0, 1)
        z, w = (None, None) if queries.shape[2] == 1 else chunks.solve(rows)
        states = chunks.forwards(state, rows, z, w)
        y = torch.bmm(chunks.read, states[:-1].flatten(0, 1)).baddbmm_(chunks.scores, chunks.values(z, rows))
        ctx.save_for_backward(queries, keys, v, log_decay, document, states, z, w)
        return y.view_as(v), states[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        with without_autocast(grad):
            return _backward(grad, grad_last, *ctx.saved_tensors)


def _backward(
    grad: Tensor,
    grad_last: Tensor,
    queries: Tensor,
    keys: Tensor,
    v: Tensor,
    log_decay: Tensor,
    document: Tensor | None,
    states: Tensor,
    z: Tensor | None,
    w: Tensor | None,
) -> tuple[Tensor | None, ...]:
    chunks, size, cut = _RecurrenceChunks.of(queries, keys, log_decay, document), v.shape[-2], v.shape[:2]
    decay, rows, grads = chunks.decay, v.flatten(0, 1), grad.contiguous().flatten(0, 1)
    by_z = (chunks.scores[..., :size].mT @ grads).unflatten(0, cut)
    by_states = chunks.backwards(grad_last, (chunks.read.mT @ grads).unflatten(0, cut), by_z, w)
    after = by_states[1:].flatten(0, 1)
    after = after if decay.leaving is None else after * decay.leaving
    by_v = by_z.flatten(0, 1) if z is None else chunks.scores[..., -size:].mT @ grads
    if z is None or decay.kinds[1] == 2:
        by_v.baddbmm_(decay.carried[:, -size:], after)
    if z is not None:
        solved = chunks.solving.mT @ by_z.flatten(0, 1)
        grads = torch.cat((grads, solved), dim=-2)
        by_v = solved if decay.kinds[1] == 1 else by_v.baddbmm_(decay.scores[:, size:, size:].mT, solved)
    values = chunks.values(z, rows)
    before = states[:-1].flatten(0, 1)
    by_queries, by_keys, by_decay = decay.backward(
        grads @ values.mT, grads @ before.mT, values @ after.mT, (before * after).sum(-1).unsqueeze(-2)
    )
    by_state = by_states[0] if decay.entering is None else by_states[0] * decay.entering[0]
    parts = zip((by_queries, by_keys, by_v, by_decay), (queries, keys, v, log_decay), strict=True)
    return *(by_part.view_as(part) for by_part, part in parts), by_state, None
