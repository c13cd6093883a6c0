"""RWKV-4's weighted mean of values, whose weights decay channel by channel (Peng et al. 2023,
https://arxiv.org/abs/2305.13048): sums of exponentials, in units of their largest term, gradients by hand.

E channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headtohead.components.sequence_ops.scan import EXPORTED_DOUBLINGS, in_float32, scan

NOTHING = -1e38
"""The logarithm of no term at all: finite, so that differences are, and so low that any other term drowns it."""


@dataclass(frozen=True)
class WkvSums:
    """The sums so far: of exp(k) v and of exp(k), both in units of exp(scale)."""

    values: Float[Tensor, "B E"]
    weights: Float[Tensor, "B E"]
    scale: Float[Tensor, "B E"]


def wkv(
    log_decay: Float[Tensor, " E"],
    bonus: Float[Tensor, " E"],
    k: Float[Tensor, "B L E"],
    v: Float[Tensor, "B L E"],
    *,
    document_starts: Bool[Tensor, "B L"] | None = None,
    state: WkvSums | None = None,
) -> tuple[Float[Tensor, "B L E"], WkvSums]:
    """Return the mean of v_s over s <= t with weights exp((t - 1 - s) log_decay + k_s), or exp(bonus + k_t) for s = t,
    and the last sums, which carry no gradient."""
    first = empty_sums(in_float32(k)) if state is None else state
    w, u, key, value = (in_float32(t) for t in (log_decay, bonus, k, v))
    if torch.compiler.is_exporting():
        terms = _without_loop(w, u, key, value, document_starts, first)
        return terms.output().to(v.dtype), terms.last()
    y, *last = _in_place(w, u, key, value, document_starts, first.values, first.weights, first.scale)
    return y.to(v.dtype), WkvSums(*last)


def empty_sums(k: Float[Tensor, "B L E"]) -> WkvSums:
    zero = torch.zeros_like(k[:, 0])
    return WkvSums(zero, zero, torch.full_like(zero, NOTHING))


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _in_place(*inputs: Tensor | None) -> tuple[Tensor, ...]:
    outputs: tuple[Tensor, ...] = _Wkv.apply(*inputs)  # type: ignore[no-untyped-call]
    return outputs


@dataclass(frozen=True)
class _Terms:
    """The quantities behind outputs and gradients; sums are [B, L, 2, E], of values and of weights."""

    k: Tensor
    v: Tensor
    decay: Tensor
    """The share of the sums before a token that is left, in the units after it."""
    share: Tensor
    """exp(k) in the units after the token."""
    sums: Tensor
    sums_before: Tensor
    scale: Tensor
    past: Tensor
    """The weights of the sums before and of the token itself in the output, in units of the larger."""
    own: Tensor

    def output(self) -> Tensor:
        return self.numerator() / self.denominator()

    def numerator(self) -> Tensor:
        return torch.addcmul(self.own * self.v, self.past, self.sums_before[:, :, 0])

    def denominator(self) -> Tensor:
        return torch.addcmul(self.own, self.past, self.sums_before[:, :, 1])

    def last(self) -> WkvSums:
        return WkvSums(self.sums[:, -1, 0], self.sums[:, -1, 1], self.scale[:, -1])


def _terms(
    log_decay: Tensor,
    bonus: Tensor,
    k: Tensor,
    v: Tensor,
    scale: Tensor,
    document_starts: Tensor | None,
    start: WkvSums,
) -> _Terms:
    """Return the terms of the means; the scale may be anything, and near the largest term it keeps numbers small."""
    before = torch.cat((start.scale[:, None], scale[:, :-1]), dim=1)
    if document_starts is not None:
        before = before.masked_fill(document_starts[..., None], NOTHING)
    decay, share = (before + log_decay - scale).exp(), (k - scale).exp()
    first = torch.stack((start.values, start.weights), dim=1)
    sums = scan(decay[:, :, None].expand(-1, -1, 2, -1), torch.stack((share * v, share), dim=2), first)
    largest = torch.maximum(before, k + bonus)
    past, own = (before - largest).exp(), (k + bonus - largest).exp()
    sums_before = torch.cat((first[:, None], sums[:, :-1]), dim=1)
    return _Terms(k, v, decay, share, sums, sums_before, scale, past, own)


class _Wkv(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        log_decay: Tensor,
        bonus: Tensor,
        k: Tensor,
        v: Tensor,
        document_starts: Tensor | None,
        values: Tensor,
        weights: Tensor,
        scale: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(log_decay, bonus, k, v, document_starts, values, weights, scale)
        terms = _looped(log_decay, bonus, k, v, document_starts, WkvSums(values, weights, scale))
        last = terms.last()
        ends = tuple(end.clone() for end in (last.values, last.weights, last.scale))
        ctx.mark_non_differentiable(*ends)
        return terms.output(), *ends

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients; outputs do not depend on the scale, which is therefore held fixed."""
        log_decay, bonus, k, v, document_starts, *start = ctx.saved_tensors
        terms = _looped(log_decay, bonus, k, v, document_starts, WkvSums(*start))
        denominator = terms.denominator()
        by_numerator = grad / denominator
        by_denominator = by_numerator.mul(terms.numerator()).div_(denominator).neg_()
        g = torch.stack((by_numerator, by_denominator), dim=2)
        later = _gradients_of_sums(terms.decay, g * terms.past[:, :, None])
        by_share = torch.addcmul(later[:, :, 1], v, later[:, :, 0])
        by_own = torch.addcmul(by_denominator, v, by_numerator).mul_(terms.own)
        by_v = torch.addcmul(terms.own * by_numerator, terms.share, later[:, :, 0])
        by_decay = (terms.sums_before * later).sum(2).mul_(terms.decay)
        by_k = torch.addcmul(by_own, terms.share, by_share)
        return by_decay.sum((0, 1)), by_own.sum((0, 1)), by_k, by_v, None, None, None, None


def _looped(
    log_decay: Tensor, bonus: Tensor, k: Tensor, v: Tensor, document_starts: Tensor | None, start: WkvSums
) -> _Terms:
    """Return the terms token by token; the scale is the largest term so far, decayed as the sums are."""
    scale, faded = torch.empty_like(k), torch.empty_like(start.scale)
    before = start.scale
    marks = [None] * k.shape[1] if document_starts is None else document_starts[..., None].unbind(1)
    for mark, k_t, scale_t in zip(marks, k.unbind(1), scale.unbind(1), strict=True):
        torch.add(before, log_decay, out=faded)
        if mark is not None:
            faded.masked_fill_(mark, NOTHING)
        before = torch.maximum(faded, k_t, out=scale_t)
    return _terms(log_decay, bonus, k, v, scale, document_starts, start)


def _gradients_of_sums(decay: Tensor, by_before: Tensor) -> Tensor:
    """Return G_t = by_before_{t+1} + decay_{t+1} G_{t+1}, the gradient by the sums after token t."""
    g = torch.zeros_like(by_before)
    g[:, :-1] = by_before[:, 1:]
    decays, gradients = decay[:, :, None].unbind(1), g.unbind(1)
    for t in range(len(decays) - 2, -1, -1):
        gradients[t].addcmul_(decays[t + 1], gradients[t + 1])
    return g


def _without_loop(
    log_decay: Tensor, bonus: Tensor, k: Tensor, v: Tensor, document_starts: Tensor | None, start: WkvSums
) -> _Terms:
    """Return the terms without a loop, for an exported graph, from the largest term of one token, of two, of four
    ..."""
    largest = torch.cat((torch.maximum(k[:, :1], start.scale[:, None] + log_decay), k[:, 1:]), dim=1)
    for doubling in range(EXPORTED_DOUBLINGS):
        by = 2**doubling
        room = torch.full_like(k[:, :1], NOTHING).expand(-1, by, -1)
        earlier = torch.cat((room, largest), dim=1)[:, : k.shape[1]]
        largest = torch.maximum(largest, earlier + by * log_decay)
    return _terms(log_decay, bonus, k, v, largest, document_starts, start)
