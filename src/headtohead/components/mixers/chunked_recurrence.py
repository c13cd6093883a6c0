"""Linear recurrences with decay, and with a delta rule, over chunks of tokens instead of tokens (Yang et al. 2023,
https://arxiv.org/abs/2312.06635; Yang et al. 2024, https://arxiv.org/abs/2406.06484):

    S_t = exp(g_t) S_(t-1) + k_t v_t^T + p_t z_t^T,  z_t = r_t^T exp(g_t) S_(t-1),  o_t = q_t^T S_t

Inside a chunk all is products of matrices, and the solution of a triangular system for z; a loop goes over chunks
alone. Where what is read is written at the token's own key, p = k, and z_t stands for v_t + r_t^T exp(g_t) S_(t-1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headtohead.components.mixers.chunked_decay import without_autocast
from headtohead.components.mixers.decays import AnyDecay, BoundedDecay, Decay, SharedDecay
from headtohead.components.mixers.doubled_recurrence import recur_by_doubling

MOST = 128
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
    """Outputs, and the state after the last token, in float32 at least; `starts` says before which tokens the state is
    forgotten.

    The decays of a delta rule are one for all channels, or none stronger than exp(-0.7).
    """
    exact = torch.promote_types(v.dtype, torch.float32)
    q, k, v, log_decay = (part.to(exact) for part in (q, k, v, log_decay))
    reads, writes, state = (None if part is None else part.to(exact) for part in (reads, writes, state))
    with without_autocast(v):
        if torch.compiler.is_exporting():
            return recur_by_doubling(q, k, v, log_decay, reads=reads, writes=writes, state=state, starts=starts)
        queries = (q,) if reads is None else (q, reads)
        keys = (k,) if writes is None else (writes, k)
        return _in_chunks(queries, keys, v, log_decay, state, starts, chunk_length(q.shape[2], chunk_size))


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
    """The recurrence itself, for one token; in the state's type."""
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
    """A power of two, not above what float32 bears."""
    if not 1 <= chunk_size <= MOST or chunk_size & (chunk_size - 1):
        raise ValueError(f"chunk_size={chunk_size} is no power of two up to {MOST}: use 32")
    return chunk_size


def chunk_length(length: int, chunk_size: int) -> int:
    """No longer than needed."""
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
    together = [torch.stack([_cut(part, chunk) for part in parts], dim=3) for parts in (queries, keys)]
    document = None if starts is None else _cut(starts[:, None, :, None].long(), chunk).cumsum(-2)
    if state is None:
        state = v.new_zeros(*v.shape[:2], queries[0].shape[-1], v.shape[-1])
    y, state = _Recurrence.apply(*together, _cut(v, chunk), _cut(log_decay, chunk), state, document)
    return y.flatten(2, 3)[:, :, : v.shape[2]], state


def _cut(x: Tensor, chunk: int) -> Tensor:
    """x[B, H, L, E] as [B, H, N, C, E], with zeros behind."""
    missing = -x.shape[2] % chunk
    return (F.pad(x, (0, 0, 0, missing)) if missing else x).unflatten(2, (-1, chunk))


@dataclass(frozen=True)
class _Chunks:
    """What is known of chunks before their states are."""

    decay: Decay
    scores: Float[Tensor, "B H N P C QC"]
    read: Float[Tensor, "B H N P C K"]
    kept: Float[Tensor, "B H N QC K"]

    @classmethod
    def of(cls, queries: Tensor, keys: Tensor, log_decay: Tensor, document: Tensor | None) -> _Chunks:
        is_shared, is_delta = log_decay.shape[-1] == 1, queries.shape[-3] == 2
        decay = (SharedDecay if is_shared else BoundedDecay if is_delta else AnyDecay)(log_decay, document)
        scores = decay.scores(queries, keys).flatten(-2)
        return cls(decay, scores, decay.read(queries), decay.kept(keys).flatten(-3, -2))

    @property
    def system(self) -> Float[Tensor, "B H N C C"]:
        """Times z it is what z would be if no token had written z before: 1 - the scores of reads with writes."""
        size = self.scores.shape[-2]
        return torch.eye(size, device=self.scores.device, dtype=self.scores.dtype) - self.scores[..., 1, :, :size]

    def solve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """z without the state before the chunk, and what z gains by it: z + w S."""
        size = v.shape[-2]
        own = v if self.scores.shape[-1] == size else self.scores[..., 1, :, size:] @ v
        both = torch.cat((own, self.read[..., 1, :, :]), dim=-1)
        both = torch.linalg.solve_triangular(self.system, both, upper=False, unitriangular=True)
        return both[..., : v.shape[-1]], both[..., v.shape[-1] :].contiguous()

    def values(self, z: Tensor | None, v: Tensor) -> Float[Tensor, "B H N QC V"]:
        """All that is written."""
        if z is None:
            return v
        return z if self.scores.shape[-1] == v.shape[-2] else torch.cat((z, v), dim=-2)

    def turn(self, w: Tensor | None) -> Float[Tensor, "B H N K K"] | None:
        """What a chunk makes of the state before it, where that is more than decay."""
        if w is None:
            return None
        turn = self.kept[..., : w.shape[-2], :].mT @ w
        turn.diagonal(dim1=-2, dim2=-1).add_(self.decay.whole.squeeze(-2))
        return turn


def _run(
    chunks: _Chunks, turn: Tensor | None, added: Tensor, state: Tensor, *, backwards: bool = False
) -> list[Tensor]:
    """The state (backwards its gradient) before each chunk and after the last one."""
    states, order = [state], slice(None, None, -1 if backwards else 1)
    if turn is None:
        for whole, new in list(zip(chunks.decay.whole.mT.unbind(2), added.unbind(2), strict=True))[order]:
            states.append(torch.addcmul(new, whole, states[-1]))
    else:
        for turned, new in list(zip((turn.mT if backwards else turn).unbind(2), added.unbind(2), strict=True))[order]:
            states.append(new + turned @ states[-1])
    return states[order]


class _Recurrence(torch.autograd.Function):
    """Keeps for the backward pass what was solved, and the states between chunks; scores are made again. Every
    exp(G_i - G_j) stands beside a query of i and a key of j: their own gradients tell that of the decays."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Float[Tensor, "B H N P C K"],
        keys: Float[Tensor, "B H N Q C K"],
        v: Float[Tensor, "B H N C V"],
        log_decay: Float[Tensor, "B H N C E"],
        state: Float[Tensor, "B H K V"],
        document: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        chunks = _Chunks.of(queries, keys, log_decay, document)
        z, w = (None, None) if queries.shape[-3] == 1 else chunks.solve(v)
        *states, last = _run(chunks, chunks.turn(w), chunks.kept.mT @ chunks.values(z, v), state)
        before = torch.stack(states, dim=2)
        if z is not None and w is not None:
            z = z + w @ before
        y = chunks.read[..., 0, :, :] @ before + chunks.scores[..., 0, :, :] @ chunks.values(z, v)
        ctx.save_for_backward(queries, keys, v, log_decay, document, before, last, z, w)
        return y, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, v, log_decay, document, before, last, z, w = ctx.saved_tensors
        chunks, size = _Chunks.of(queries, keys, log_decay, document), v.shape[-2]
        by_values = chunks.scores[..., 0, :, :].mT @ grad
        by_before = chunks.read[..., 0, :, :].mT @ grad
        if w is not None:
            by_before = by_before + w.mT @ by_values[..., :size, :]
        by_state, *by_states = _run(chunks, chunks.turn(w), by_before, grad_last, backwards=True)
        after = torch.stack(by_states, dim=2)
        by_values = by_values + chunks.kept @ after
        grads, by_v = grad.unsqueeze(-3), by_values[..., -size:, :]
        if w is not None:
            solved = torch.linalg.solve_triangular(
                chunks.system.mT, by_values[..., :size, :], upper=True, unitriangular=True
            )
            grads = torch.stack((grad, solved), dim=-3)
            is_own = keys.shape[-3] == 1
            by_v = solved if is_own else by_v + chunks.scores[..., 1, :, size:].mT @ solved
        values = chunks.values(z, v)
        by_scores = (grads.flatten(-3, -2) @ values.mT).view(*queries.shape[:-1], *keys.shape[-3:-1])
        by_queries, by_keys = chunks.decay.scores_backward(by_scores, queries, keys)
        by_queries += chunks.decay.read(grads @ before.mT.unsqueeze(-3))
        by_keys += chunks.decay.kept((values @ after.mT).view_as(keys))
        by_sums = (queries * by_queries).sum(-3) - (keys * by_keys).sum(-3)
        at_end = (after * torch.cat((before[:, :, 1:], last.unsqueeze(2)), dim=2)).sum(-1).unsqueeze(-2)
        by_decay = by_sums.flip(-2).cumsum(-2).flip(-2) + at_end
        if log_decay.shape[-1] == 1:
            by_decay = by_decay.sum(-1, keepdim=True)
        return by_queries, by_keys, by_v, by_decay, by_state, None
