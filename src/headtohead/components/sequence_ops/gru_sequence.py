"""A sequence of gated recurrent units with a backward pass of its own (Cho et al. 2014,
https://arxiv.org/abs/1406.1078): products over all tokens at once wherever no state is needed, so that a token costs
two products and ten small kernels. Autograd of torch's kernel adds to the gradients of the weights at every token."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

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
