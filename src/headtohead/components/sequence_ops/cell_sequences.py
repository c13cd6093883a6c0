"""A sequence of gated recurrent units (Cho et al. 2014, https://arxiv.org/abs/1406.1078) or of sLSTM cells (Beck et al.
2024, https://arxiv.org/abs/2405.04517) with a backward pass of its own: products over all tokens at once wherever no
state is needed, so that a token costs two products and ten small kernels, or one product. Autograd of torch's kernel
adds to the gradients of the weights at every token."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

Weights = tuple[Tensor, Tensor, Tensor | None, Tensor | None]
"""The weights of the tokens [3 D, D] and of the state [3 D, D], then the biases of both: reset, update, candidate, as
torch's."""


def gru_sequence(x: Float[Tensor, "B L D"], weights: Weights) -> Float[Tensor, "B L D"]:
    """Return the states of all tokens, from a state of zeros."""
    y: Tensor = _GruSequence.apply(x, *weights)  # type: ignore[no-untyped-call]
    return y


class _GruSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, of_x: Tensor, of_h: Tensor, bias_x: Tensor | None, bias_h: Tensor | None
    ) -> Tensor:
        width = of_h.shape[1]
        gates = F.linear(x, of_x, bias_x)
        states, candidates = (x.new_empty(*x.shape[:2], width) for _ in range(2))
        before, from_state = x.new_zeros(len(x), width), x.new_empty(len(x), 3 * width)
        for gate, candidate, state in zip(gates.unbind(1), candidates.unbind(1), states.unbind(1), strict=True):
            _product(before, of_h, bias_h, out=from_state)
            opened = gate[:, : 2 * width].add_(from_state[:, : 2 * width]).sigmoid_()
            candidate.copy_(from_state[:, 2 * width :])
            new = gate[:, 2 * width :].addcmul_(opened[:, :width], candidate).tanh_()
            torch.lerp(new, before, opened[:, width:], out=state)
            before = state
        ctx.save_for_backward(x, of_x, of_h, bias_x, bias_h, gates, candidates, states)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, of_x, of_h, bias_x, bias_h, gates, candidates, states = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _differentiable(ctx, grad, x, (of_x, of_h, bias_x, bias_h))
        reset, update, new = gates.chunk(3, -1)
        previous = F.pad(states[:, :-1], (0, 0, 1, 0))
        # What the gradient of a state is multiplied by, for each of the three pre-activations that read the state.
        to_new = (1 - update) * (1 - new * new)
        factors = torch.stack(
            (to_new * candidates * reset * (1 - reset), (previous - new) * update * (1 - update), to_new * reset), 2
        )
        of_states, carried = torch.empty_like(grad), torch.zeros_like(previous[:, 0])
        for t in range(grad.shape[1] - 1, -1, -1):
            of_state = torch.add(grad[:, t], carried, out=of_states[:, t])
            from_state = factors[:, t].mul_(of_state[:, None])
            if t:
                carried = torch.mul(of_state, update[:, t]).addmm_(from_state.flatten(1), of_h)
        by_state = factors.flatten(2)
        by_token = torch.cat((by_state[..., : 2 * new.shape[-1]], of_states * to_new), -1)
        flat_state, flat_token = by_state.flatten(0, 1), by_token.flatten(0, 1)
        needs = ctx.needs_input_grad
        return (
            by_token @ of_x if needs[0] else None,
            flat_token.T @ x.flatten(0, 1) if needs[1] else None,
            flat_state.T @ previous.flatten(0, 1) if needs[2] else None,
            flat_token.sum(0) if needs[3] else None,
            flat_state.sum(0) if needs[4] else None,
        )


def _product(before: Tensor, of_h: Tensor, bias: Tensor | None, *, out: Tensor) -> None:
    if bias is None:
        torch.mm(before, of_h.T, out=out)
    else:
        torch.addmm(bias, before, of_h.T, out=out)


def _differentiable(ctx: Any, grad: Tensor, x: Tensor, weights: Weights) -> tuple[Tensor | None, ...]:
    """Return gradients that have gradients, by autograd of the equations themselves."""
    inputs = (x, *weights)
    leaves = [t for t, needed in zip(inputs, ctx.needs_input_grad, strict=True) if needed and t is not None]
    made = iter(torch.autograd.grad(plain_gru(x, weights), leaves, grad, create_graph=True))
    return tuple(next(made) if needed else None for needed in ctx.needs_input_grad)


def plain_gru(x: Float[Tensor, "B L D"], weights: Weights) -> Float[Tensor, "B L D"]:
    """Return the same states, equation by equation."""
    of_x, of_h, bias_x, bias_h = weights
    state, states = x.new_zeros(len(x), of_h.shape[1]), []
    for token in F.linear(x, of_x, bias_x).unbind(1):
        reset, update, candidate = token.chunk(3, -1)
        of_reset, of_update, of_candidate = F.linear(state, of_h, bias_h).chunk(3, -1)
        new = torch.tanh(candidate + torch.sigmoid(reset + of_reset) * of_candidate)
        state = torch.lerp(new, state, torch.sigmoid(update + of_update))
        states.append(state)
    return torch.stack(states, 1)


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
