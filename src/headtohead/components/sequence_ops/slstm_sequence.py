"""A sequence of sLSTM cells with a backward pass of its own (Beck et al. 2024, https://arxiv.org/abs/2405.04517): a
token costs one product, and gradients of the weights are made of all tokens at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable


class CellStates(NamedTuple):
    """The output, cell and normaliser that are carried from token to token; the last two divided by exp(scale)."""

    hidden: Float[Tensor, "B H K"]
    cell: Float[Tensor, "B H K"]
    normaliser: Float[Tensor, "B H K"]
    scale: Float[Tensor, "B H K"]

    @classmethod
    def empty(cls, like: Float[Tensor, "B H K"]) -> CellStates:
        """Return the state before any token: the first one decides the scale alone."""
        zero = torch.zeros_like(like)
        return cls(zero, zero, zero, torch.full_like(like, float("-inf")))

    def where(self, condition: Bool[Tensor, " B"], other: CellStates) -> CellStates:
        """Return these states in the rows in which the condition holds, and the other ones elsewhere."""
        pairs = zip(self, other, strict=True)
        return CellStates(*(torch.where(condition[:, None, None], mine, theirs) for mine, theirs in pairs))


class CellGates(NamedTuple):
    """The candidate and the gates of one token, input and forget gate with the change of scale in them."""

    candidate: Float[Tensor, "B H K"]
    input: Float[Tensor, "B H K"]
    forget: Float[Tensor, "B H K"]
    output: Float[Tensor, "B H K"]


def next_states(
    of_token: Float[Tensor, "B 4 H K"], recurrent: Float[Tensor, "H GK K"], before: CellStates
) -> tuple[CellStates, CellGates, Float[Tensor, "B 4 H K"]]:
    """Return the states after one more token, its gates, and what they were computed from."""
    from_state = torch.bmm(before.hidden.transpose(0, 1), recurrent.mT).unflatten(-1, (4, -1)).permute(1, 2, 0, 3)
    z, i, f, o = (raw := of_token + from_state).unbind(1)
    log_forget = torch.nn.functional.logsigmoid(f)
    scale = torch.maximum(log_forget + before.scale, i)
    gates = CellGates(z.tanh(), (i - scale).exp(), (log_forget + before.scale - scale).exp(), o.sigmoid())
    cell = gates.forget * before.cell + gates.input * gates.candidate
    normaliser = gates.forget * before.normaliser + gates.input
    return CellStates(gates.output * cell / normaliser, cell, normaliser, scale), gates, raw


def slstm_sequence(
    of_tokens: Float[Tensor, "B L 4 H K"], recurrent: Float[Tensor, "H GK K"], starts: Bool[Tensor, "B L"] | None
) -> Float[Tensor, "B L H K"]:
    """Return the outputs of all tokens, from an empty state and from another one wherever `starts` is true."""
    y: Tensor = _SlstmSequence.apply(of_tokens, recurrent, starts)  # type: ignore[no-untyped-call]
    return y


class _SlstmSequence(torch.autograd.Function):
    """Saves the gates and the states; the scale cancels between cell and normaliser, and so needs no gradient."""

    @staticmethod
    def forward(ctx: Any, of_tokens: Tensor, recurrent: Tensor, starts: Tensor | None) -> Tensor:
        first = states = CellStates.empty(of_tokens[:, 0, 0])
        saved: list[tuple[Tensor, ...]] = []
        for t, token in enumerate(of_tokens.unbind(1)):
            if starts is not None:
                states = first.where(starts[:, t], states)
            states, gates, raw = next_states(token, recurrent, states)
            saved.append((*gates, raw[:, 2], states.cell, states.normaliser, states.hidden))
        columns = [torch.stack(column, 1) for column in zip(*saved, strict=True)]
        ctx.save_for_backward(*columns, recurrent, starts)
        return columns[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, i, f, o, raw_f, cell, normaliser, hidden, recurrent, starts = ctx.saved_tensors
        by_raw = grad.new_empty(*grad.shape[:2], 4, *grad.shape[2:])
        by_hidden = by_cell = by_normaliser = torch.zeros_like(grad[:, 0])
        before = [_one_later(states, starts) for states in (cell, normaliser, hidden)]
        for t in range(grad.shape[1] - 1, -1, -1):
            by_y = grad[:, t] + by_hidden
            mean = cell[:, t] / normaliser[:, t]
            by_mean = by_y * o[:, t] / normaliser[:, t]
            by_cell, by_normaliser = by_cell + by_mean, by_normaliser - by_mean * mean
            by_forget = by_cell * before[0][:, t] + by_normaliser * before[1][:, t]
            by_raw[:, t, 0] = by_cell * i[:, t] * (1 - z[:, t].square())
            by_raw[:, t, 1] = (by_cell * z[:, t] + by_normaliser) * i[:, t]
            by_raw[:, t, 2] = by_forget * f[:, t] * (-raw_f[:, t]).sigmoid()
            by_raw[:, t, 3] = by_y * mean * o[:, t] * (1 - o[:, t])
            flat = by_raw[:, t].permute(2, 0, 1, 3).flatten(2)
            by_hidden = torch.bmm(flat, recurrent).transpose(0, 1)
            by_cell, by_normaliser = by_cell * f[:, t], by_normaliser * f[:, t]
            if starts is not None:  # an empty state has no gradient
                goes_on = ~starts[:, t, None, None]
                by_hidden, by_cell, by_normaliser = (part * goes_on for part in (by_hidden, by_cell, by_normaliser))
        rows = by_raw.permute(3, 0, 1, 2, 4).flatten(3).flatten(1, 2)
        return by_raw, rows.mT @ before[2].permute(2, 0, 1, 3).flatten(1, 2), None


def _one_later(states: Float[Tensor, "B L H K"], starts: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L H K"]:
    """Return the states that every token finds before it."""
    before = torch.nn.functional.pad(states[:, :-1], (0, 0, 0, 0, 1, 0))
    return before if starts is None else before * ~starts[..., None, None]
