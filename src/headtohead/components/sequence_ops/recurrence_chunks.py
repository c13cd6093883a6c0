"""The products of a linear recurrence over the chunks of one segment of its tokens, and their gradients by hand: see
chunked_recurrence, which goes from segment to segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from headtohead.components.sequence_ops.decays import (
    AnyDecay,
    BoundedDecay,
    Decay,
    SharedDecay,
    fits_in_float32,
    ones_up_to,
)
from headtohead.components.sequence_ops.triangular_inverse import inverse_of_one_minus


@dataclass(frozen=True)
class RecurrenceChunks:
    """The quantities of chunks that do not depend on their states; M = N G matrices of each kind."""

    decay: Decay
    num: int
    """N."""
    size: int
    """C."""

    @classmethod
    def of(cls, queries: Tensor, keys: Tensor, log_decay: Tensor, document: Tensor | None) -> RecurrenceChunks:
        num, size = len(queries), queries.shape[-2]
        sums = (ones_up_to(log_decay) @ log_decay).flatten(0, 1)
        queries, keys = queries.flatten(0, 1), keys.flatten(0, 1)
        document = None if document is None else document.flatten(0, 1)
        if log_decay.shape[-1] == 1:
            return cls(SharedDecay(queries, keys, sums, document), num, size)
        if fits_in_float32(log_decay, sums):
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


class Tokens(NamedTuple):
    """All that a recurrence reads but its state; `starts` marks the tokens before which that is forgotten."""

    q: Float[Tensor, "B H L K"]
    k: Float[Tensor, "B H L K"]
    v: Float[Tensor, "B H L V"]
    log_decay: Float[Tensor, "B H L E"]
    reads: Float[Tensor, "B H L K"] | None
    writes: Float[Tensor, "B H L K"] | None
    starts: Bool[Tensor, "B L"] | None

    def between(self, cut: slice, exact: torch.dtype) -> Tokens:
        """Return some of the tokens, all in one format."""
        q, k, v, log_decay = (part[:, :, cut].to(exact) for part in self[:4])
        reads, writes = (None if part is None else part[:, :, cut].to(exact) for part in self[4:6])
        return Tokens(q, k, v, log_decay, reads, writes, None if self.starts is None else self.starts[:, cut])


class Solution(NamedTuple):
    """The unknowns of the chunks of a segment: z and the w with which the state adds to it, for a delta rule, and the
    states at the start of every chunk, and after the last."""

    z: Float[Tensor, "N G C V"] | None
    w: Float[Tensor, "N G C K"] | None
    states: Float[Tensor, "S G K V"]


@dataclass(frozen=True)
class Segment:
    """Consecutive tokens, cut into N chunks of C tokens, of G = B H sequences."""

    queries: Float[Tensor, "N G P C K"]
    keys: Float[Tensor, "N G Q C K"]
    v: Float[Tensor, "N G C V"]
    log_decay: Float[Tensor, "N G C E"]
    document: Int[Tensor, "N G C 1"] | None

    @classmethod
    def of(cls, tokens: Tokens, cut: slice, chunk: int, exact: torch.dtype) -> Segment:
        """Cut some of the tokens into chunks, the last of them padded with zeros."""
        q, k, v, log_decay, reads, writes, starts = tokens.between(cut, exact)
        queries = _side_by_side((q,) if reads is None else (q, reads), chunk)
        keys = _side_by_side((k,) if writes is None else (writes, k), chunk)
        document = None
        if starts is not None:
            marks = starts[:, None, :, None].long().expand(*v.shape[:2], -1, -1)
            document = _side_by_side((marks,), chunk).squeeze(2).cumsum(-2)
        v, log_decay = (_side_by_side((part,), chunk).squeeze(2) for part in (v, log_decay))
        return cls(queries, keys, v, log_decay, document)

    @cached_property
    def chunks(self) -> RecurrenceChunks:
        return RecurrenceChunks.of(self.queries, self.keys, self.log_decay, self.document)

    def solve(self, state: Float[Tensor, "G K V"]) -> Solution:
        """Return z, w and the states, from the state before the segment."""
        rows = self.v.flatten(0, 1)
        z, w = (None, None) if self.queries.shape[2] == 1 else self.chunks.solve(rows)
        return Solution(z, w, self.chunks.forwards(state, rows, z, w))

    def read(self, solution: Solution, into: Float[Tensor, "B H L V"]) -> None:
        """Write the outputs of all tokens."""
        z, _, states = solution
        y = torch.bmm(self.chunks.read, states[:-1].flatten(0, 1))
        y.baddbmm_(self.chunks.scores, self.chunks.values(z, self.v.flatten(0, 1)))
        _put(y.view_as(self.v), into)

    def gradients(
        self,
        solution: Solution,
        grad: Float[Tensor, "B H L V"],
        by_last: Float[Tensor, "G K V"],
        into: Sequence[Tensor | None],
    ) -> Float[Tensor, "G K V"]:
        """Write the gradients of the tokens' parts, in the order of `of`, and return that of the state before."""
        chunks, size, cut = self.chunks, self.v.shape[-2], self.v.shape[:2]
        decay, rows = chunks.decay, self.v.flatten(0, 1)
        grads = _side_by_side((grad,), size).squeeze(2).flatten(0, 1)
        z, w, states = solution
        by_z = (chunks.scores[..., :size].mT @ grads).unflatten(0, cut)
        by_states = chunks.backwards(by_last, (chunks.read.mT @ grads).unflatten(0, cut), by_z, w)
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
        by_queries, by_keys = by_queries.view_as(self.queries), by_keys.view_as(self.keys)
        by_q, by_reads = by_queries[:, :, 0], by_queries[:, :, -1]
        by_k, by_writes = by_keys[:, :, -1], by_keys[:, :, 0]
        by_parts = (by_q, by_k, by_v.view_as(self.v), by_decay.view_as(self.log_decay), by_reads, by_writes)
        for by_part, room in zip(by_parts, into, strict=True):
            if room is not None:
                _put(by_part, room)
        return by_states[0] if decay.entering is None else by_states[0] * decay.entering[0]


def _side_by_side(parts: Sequence[Shaped[Tensor, "B H L E"]], chunk: int) -> Shaped[Tensor, "N G S C E"]:
    """Return a copy of the chunks of S parts one after the other, those of the last padded with zeros."""
    missing = -parts[0].shape[2] % chunk
    whole = (F.pad(part, (0, 0, 0, missing)) if missing else part for part in parts)
    cut = [part.unflatten(2, (-1, chunk)).movedim(2, 0).flatten(1, 2) for part in whole]
    return torch.stack(cut, dim=2)


def _put(chunks: Float[Tensor, "N G C E"], into: Float[Tensor, "B H L E"]) -> None:
    """Write chunks to the tokens that they were cut from, in these tokens' format; padding is left out."""
    rows = chunks.unflatten(1, into.shape[:2]).movedim(0, 2)
    if rows.shape[2] * rows.shape[3] == into.shape[2]:
        into.unflatten(2, rows.shape[2:4]).copy_(rows)
    else:
        into.copy_(rows.flatten(2, 3)[:, :, : into.shape[2]])
