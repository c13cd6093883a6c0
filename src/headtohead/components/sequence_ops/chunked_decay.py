"""y_t = q_t S_t with S_t = exp(g_t) S_(t-1) + k_t^T v_t, in chunks: inside a chunk as masked attention, from chunk to
chunk by its state (Hua et al. 2022, https://arxiv.org/abs/2202.10447; Sun et al. 2023, https://arxiv.org/abs/2307.08621;
Dao and Gu 2024, https://arxiv.org/abs/2405.21060).

Linear attention, retention, Mamba-2 and the mLSTM are this recurrence with keys, gates and values of their own. The
decay is one number per head and token, fixed or made from the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.decays import by_decay
from headtohead.errors import UsageError


def decayed_sums(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B H L K"],
    v: Float[Tensor, "B H L P"],
    log_decay: Float[Tensor, "#B #H #L"] | None = None,
    *,
    state: Float[Tensor, "B H K P"] | None = None,
    starts: Bool[Tensor, "B L"] | None = None,
    chunk_size: int = 64,
) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H K P"]]:
    """Return the outputs and the last state, in float32 at least.

    `log_decay` None means that nothing is forgotten; one with a single token holds for all, and gets no gradient.
    `starts` marks the tokens before which everything is forgotten.
    """
    length = v.shape[2]
    if length == 1 and state is not None:
        return _step(q, k, v, log_decay, state)
    exact = at_least_float32(v.dtype)
    if torch.compiler.is_exporting():
        assert starts is None, "an exported graph reads whole rows"
        q, k, v = (t.to(exact) for t in (q, k, v))
        return _without_loop(q, k, v, None if log_decay is None else log_decay.to(exact), state, chunk_size)
    padded, num_chunks = padded_length(length, chunk_size)
    missing, width = padded - length, padded // num_chunks
    q, k, v = (t.to(exact) for t in (q, k, v))
    if missing:
        q, k, v = (F.pad(t, (0, 0, 0, missing)) for t in (q, k, v))
    q, k, v = (t.contiguous() for t in (q, k, v))
    if log_decay is not None:
        log_decay = log_decay.to(exact)
        if missing or log_decay.shape[2] == length:  # what is added at the end forgets nothing
            log_decay = F.pad(log_decay.expand(-1, -1, length), (0, missing))
    if starts is not None:
        starts = F.pad(starts, (0, missing))
    y, last = _DecayedSums.apply(q, k, v, log_decay, state, starts, width)  # type: ignore[no-untyped-call]
    return y[:, :, :length], last


def padded_length(length: int, chunk_size: int) -> tuple[int, int]:
    """Return the length in whole chunks, and their number: as few as `chunk_size` allows, and then as short as they can
    be."""
    num_chunks = -(-length // chunk_size)
    return num_chunks * -(-length // num_chunks), num_chunks


def _step(
    q: Float[Tensor, "B H 1 K"],
    k: Float[Tensor, "B H 1 K"],
    v: Float[Tensor, "B H 1 P"],
    log_decay: Float[Tensor, "#B #H 1"] | None,
    state: Float[Tensor, "B H K P"],
) -> tuple[Float[Tensor, "B H 1 P"], Float[Tensor, "B H K P"]]:
    """Compute the recurrence itself, for one token, in the state's dtype."""
    q, k, v = (t.to(state.dtype) for t in (q, k, v))
    if log_decay is not None:
        state = state * log_decay.to(state.dtype).exp()[..., None]
    with without_autocast(state):
        state = state + k.mT @ v
        return q @ state, state


def _without_loop(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B H L K"],
    v: Float[Tensor, "B H L P"],
    log_decay: Float[Tensor, "#B #H #L"] | None,
    state: Float[Tensor, "B H K P"] | None,
    width: int,
) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H K P"]]:
    """Compute the sums for exported graphs, which do not know the number of chunks: the states before them are decayed
    sums themselves, of what the chunks before write. One chunk is added, since a single one would be specialised on."""
    length = v.shape[2]
    missing = (length + 2 * width - 1) // width * width - length
    if log_decay is None:
        log_decay = v.new_zeros(1, 1, 1)
    decays = F.pad(log_decay.expand(-1, -1, length), (0, missing)).unflatten(2, (-1, width))
    q, k, v = (F.pad(t, (0, 0, 0, missing)).unflatten(2, (-1, width)) for t in (q, k, v))
    sums = decays.cumsum(-1)
    with without_autocast(v):
        own = (k * (sums[..., -1:] - sums).exp()[..., None]).mT @ v
        first = torch.zeros_like(own[:, :, :1]) if state is None else state.to(own.dtype)[:, :, None]
        over_chunks = F.pad(sums[..., -1].cumsum(-1), (1, 0))
        states = _left(over_chunks) @ torch.cat((first, own), dim=2).flatten(3)
        states = states.unflatten(3, own.shape[3:])
        y = ((q @ k.mT) * _left(sums)) @ v + (q * sums.exp()[..., None]) @ states[:, :, :-1]
    return y.flatten(2, 3)[:, :, :length], states[:, :, -1]


def _left(sums: Float[Tensor, "*any L"]) -> Float[Tensor, "*any L L"]:
    """Return the share of each token's write that is left at each later token."""
    return (sums[..., :, None] - sums[..., None, :]).tril().exp().tril()


def check_chunk_size(chunk_size: int) -> None:
    if chunk_size < 1:
        raise UsageError(f"chunk_size={chunk_size} is not a number of tokens: use 64, or another above 0")


def decay_matrix(
    log_decay: Float[Tensor, "#B #H #L"] | None, starts: Bool[Tensor, "B L"] | None, length: int, like: Tensor
) -> Float[Tensor, "#B #H L L"]:
    """Return the share of every token that is left at every other, as one matrix for attention maps."""
    factors = _factors(log_decay, starts, length, like)
    return like.new_ones(1, 1, length, length).tril_() if factors is None else factors.within[:, :, 0]


@dataclass(frozen=True)
class _Factors:
    """The shares that are left, by chunk (C of them, c tokens each): of a token's write at other tokens of its chunk
    and at its end, and of the state before the chunk at its tokens and at its end."""

    within: Float[Tensor, "#B #H #C c c"]
    to_end: Float[Tensor, "#B #H #C c 1"]
    from_start: Float[Tensor, "#B #H #C c 1"]
    across: Float[Tensor, "#B #H #C 1 1"]


def _factors(
    log_decay: Float[Tensor, "#B #H #L"] | None, starts: Bool[Tensor, "B L"] | None, width: int, like: Tensor
) -> _Factors | None:
    """Return the decay factors; None where nothing is forgotten and the causal mask suffices."""
    if log_decay is None and starts is None:
        return None
    if log_decay is None:
        sums = like.new_zeros(1, 1, 1, width)
    elif log_decay.shape[2] == 1:
        sums = (log_decay * torch.arange(1, width + 1, device=like.device))[:, :, None]
    else:
        sums = log_decay.unflatten(2, (-1, width)).cumsum(-1)
    later = torch.ones(width, width, dtype=torch.bool, device=like.device).triu_(1)
    within = (sums[..., :, None] - sums[..., None, :]).masked_fill_(later, float("-inf")).exp_()
    to_end, from_start = (sums[..., -1:] - sums).exp_(), sums.exp()
    if starts is not None:
        number = starts.unflatten(1, (-1, width)).cumsum(-1)[:, None]
        within = within * (number[..., :, None] == number[..., None, :])
        to_end, from_start = to_end * (number == number[..., -1:]), from_start * (number == 0)
    return _Factors(within, to_end[..., None], from_start[..., None], from_start[..., -1:, None])


class _DecayedSums(torch.autograd.Function):
    """Keeps queries, keys, values and the states before the chunks; all else is made again for the gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        log_decay: Tensor | None,
        state: Tensor | None,
        starts: Tensor | None,
        width: int,
    ) -> tuple[Tensor, Tensor]:
        chunks = (*q.shape[:2], q.shape[2] // width, width)
        factors = _factors(log_decay, starts, width, v)
        decayed_q, decayed_k = _decayed(q, k, factors)
        with without_autocast(v):
            own = torch.bmm(_chunked(decayed_k, width).mT, _chunked(v, width)).view(
                *chunks[:3], q.shape[-1], v.shape[-1]
            )
            before, last = _carried(own, factors, state)
            weights = _masked(torch.bmm(_chunked(q, width), _chunked(k, width).mT), factors, chunks)
            y = torch.bmm(weights, _chunked(v, width)).baddbmm_(_chunked(decayed_q, width), before.flatten(0, 2))
        y = y.view(v.shape)
        ctx.save_for_backward(q, k, v, log_decay, starts, before)
        ctx.width = width
        return y, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, log_decay, starts, before = ctx.saved_tensors
        width = ctx.width
        chunks = (*q.shape[:2], q.shape[2] // width, width)
        dy = dy.contiguous()
        factors = _factors(log_decay, starts, width, v)
        decayed_q, decayed_k = _decayed(q, k, factors)
        q_, k_, v_, dy_ = (_chunked(t, width) for t in (q, k, v, dy))
        d_decay = None
        with without_autocast(v):
            d_states = torch.bmm(_chunked(decayed_q, width).mT, dy_).view(*chunks[:3], q.shape[-1], v.shape[-1])
            after, d_state = _carried_back(d_states, factors, d_last)
            flat_before, flat_after = before.flatten(0, 2), after.flatten(0, 2)
            weights = _masked(torch.bmm(q_, k_.mT), factors, chunks)
            dv = torch.bmm(weights.mT, dy_).baddbmm_(_chunked(decayed_k, width), flat_after)
            d_weights = torch.bmm(dy_, v_.mT)
            dq, dk = torch.bmm(dy_, flat_before.mT), torch.bmm(v_, flat_after.mT)
            if factors is not None:
                dq.view(*chunks, -1).mul_(factors.from_start)
                dk.view(*chunks, -1).mul_(factors.to_end)
                if log_decay is not None and log_decay.shape[2] > 1 and ctx.needs_input_grad[3]:
                    through = (before * after).sum((-1, -2), keepdim=True) * factors.across
                    shares = weights.mul_(d_weights), (q_ * dq).sum(-1), (k_ * dk).sum(-1), through.view(-1, 1)
                    d_decay = by_decay(*shares).view(q.shape[:3]).sum_to_size(log_decay.shape)
            d_weights = _masked(d_weights, factors, chunks)
            dq.baddbmm_(d_weights, k_)
            dk.baddbmm_(d_weights.mT, q_)
        dq, dk, dv = dq.view(q.shape), dk.view(k.shape), dv.view(v.shape)
        return dq, dk, dv, d_decay, d_state if ctx.needs_input_grad[4] else None, None, None


def _chunked(x: Float[Tensor, "B H L K"], width: int) -> Float[Tensor, "N c K"]:
    return x.view(-1, width, x.shape[-1])


def _decayed(
    q: Float[Tensor, "B H L K"], k: Float[Tensor, "B H L K"], factors: _Factors | None
) -> tuple[Float[Tensor, "B H L K"], Float[Tensor, "B H L K"]]:
    """Return the queries scaled by what is left of the state before their chunk, and the keys scaled by what they leave
    to the state after it."""
    if factors is None:
        return q, k
    width = factors.to_end.shape[-2]
    pairs = ((q, factors.from_start), (k, factors.to_end))
    seen, left = ((x.unflatten(2, (-1, width)) * factor).view(x.shape) for x, factor in pairs)
    return seen, left


def _masked(
    weights: Float[Tensor, "N c c"], factors: _Factors | None, chunks: tuple[int, ...]
) -> Float[Tensor, "N c c"]:
    """Multiply by the decay factors, or mask causally, in place."""
    if factors is None:
        return weights.tril_()
    weights.view(*chunks, -1).mul_(factors.within)
    return weights


def _carried(
    own: Float[Tensor, "B H C K P"], factors: _Factors | None, state: Float[Tensor, "B H K P"] | None
) -> tuple[Float[Tensor, "B H C K P"], Float[Tensor, "B H K P"]]:
    """Return the states before every chunk, and after the last."""
    before, last = torch.empty_like(own), own.shape[2] - 1
    across, added, states = _by_chunk(factors, own.shape[2]), own.unbind(2), before.unbind(2)
    _ = states[0].zero_() if state is None else states[0].copy_(state)
    for chunk in range(last):
        _after(added[chunk], states[chunk], across[chunk], out=states[chunk + 1])
    return before, _after(added[last], states[last], across[last])


def _carried_back(
    d_states: Float[Tensor, "B H C K P"], factors: _Factors | None, d_last: Float[Tensor, "B H K P"]
) -> tuple[Float[Tensor, "B H C K P"], Float[Tensor, "B H K P"]]:
    """Return the gradients of the states after every chunk, and before the first."""
    after, last = torch.empty_like(d_states), d_states.shape[2] - 1
    across, added, states = _by_chunk(factors, d_states.shape[2]), d_states.unbind(2), after.unbind(2)
    states[last].copy_(d_last)
    for chunk in range(last, 0, -1):
        _after(added[chunk], states[chunk], across[chunk], out=states[chunk - 1])
    return after, _after(added[0], states[0], across[0])


def _after(
    added: Float[Tensor, "B H K P"],
    state: Float[Tensor, "B H K P"],
    decay: Float[Tensor, "#B #H 1 1"] | None,
    out: Float[Tensor, "B H K P"] | None = None,
) -> Float[Tensor, "B H K P"]:
    """Return added + decay * state, written into `out` where there is one."""
    return torch.add(added, state, out=out) if decay is None else torch.addcmul(added, state, decay, out=out)


def _by_chunk(factors: _Factors | None, num_chunks: int) -> list[Tensor] | list[None]:
    if factors is None:
        return [None] * num_chunks
    return list(factors.across.expand(-1, -1, num_chunks, -1, -1).unbind(2))
