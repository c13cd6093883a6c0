"""These twins of recurrent mixers (state spaces, gated recurrences, classical cells) take one token at a time, as in
their equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.mixers.linear.rwkv4 import Rwkv4
from headtohead.components.mixers.recurrent.mamba import Mamba, MambaSelection
from headtohead.components.mixers.recurrent.minimal_rnns import MinGru, MinLstm
from headtohead.components.mixers.recurrent.rg_lru import RgLru
from headtohead.components.mixers.recurrent.s4d import S4d
from headtohead.components.mixers.recurrent.slstm import Slstm
from headtohead.components.mixers.recurrent.torch_recurrence import Gru, Lstm, TanhRnn
from headtohead.components.sequence_ops.scan import in_float32


class ReferenceMamba(Mamba):
    """The same parameters; every state is made of the one before."""

    def read(self, chosen: MambaSelection, document_starts: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L E"]:
        A = self.rates()
        h = torch.zeros_like(chosen.value[:, 0, :, None] * A)
        y = []
        for t in range(chosen.value.shape[1]):
            step, value = chosen.step[:, t, :, None], chosen.value[:, t, :, None]
            if document_starts is not None:
                h = h.masked_fill(document_starts[:, t, None, None], 0.0)
            h = (step * A).exp() * h + (step * value) @ chosen.B[:, t, None].to(step.dtype)
            y.append(h @ chosen.C[:, t, :, None].to(h.dtype))
        return torch.stack(y, dim=1).squeeze(-1).to(chosen.value.dtype)


class ReferenceS4d(S4d):
    """The same parameters; every state is made of the one before."""

    def over_sequence(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        A = torch.complex(-in_float32(self.log_decay).exp(), in_float32(self.frequency))
        decay = (in_float32(self.log_step).exp()[:, None] * A).exp()
        brings = torch.view_as_real((decay - 1) / A).flatten(1)
        reads = (in_float32(self.C) * brings.new_tensor([1.0, -1.0])).flatten(1)
        h = torch.zeros(len(x), *A.shape, dtype=A.dtype, device=x.device)
        y = []
        for x_t in in_float32(x).unbind(1):
            brought = x_t.mT[..., None] @ brings[:, None]
            h = decay * h + torch.view_as_complex(brought.unflatten(-1, (-1, 2))).transpose(0, 1)
            y.append(2 * torch.view_as_real(h).flatten(2).transpose(0, 1) @ reads[..., None])
        return self.write(torch.stack(y).squeeze(-1).permute(2, 0, 1).to(x.dtype), x)


class ReferenceRwkv4(Rwkv4):
    """RWKV-4 with the same parameters: every token recomputes the weights of all tokens that it may attend to."""

    def mean(
        self, k: Float[Tensor, "B L E"], v: Float[Tensor, "B L E"], document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B L E"]:
        y = []
        for t in range(k.shape[1]):
            gaps = torch.arange(t - 1, -1, -1, dtype=k.dtype, device=k.device)
            past = k[:, :t] + gaps[:, None] * self.log_decay()
            scores = torch.cat((past, k[:, t, None] + self.time_first), dim=1)
            if document_starts is not None:
                number = document_starts.cumsum(1)
                scores = scores.masked_fill((number[:, : t + 1] != number[:, t, None])[..., None], float("-inf"))
            y.append((scores.softmax(1) * v[:, : t + 1]).sum(1))
        return torch.stack(y, dim=1).to(v.dtype)


def states_one_by_one(
    log_decay: Float[Tensor, "B L E"],
    inputs: Float[Tensor, "B L E"],
    document_starts: Bool[Tensor, "B L"] | None,
    start: Float[Tensor, "B E"] | None,
) -> Float[Tensor, "B L E"]:
    """Return h_t = exp(log_decay_t) h_{t-1} + inputs_t, from zero wherever a document starts."""
    h = torch.zeros_like(inputs[:, 0]) if start is None else start
    states = []
    for t in range(inputs.shape[1]):
        if document_starts is not None:
            h = h.masked_fill(document_starts[:, t, None], 0.0)
        h = log_decay[:, t].exp() * h + inputs[:, t]
        states.append(h)
    return torch.stack(states, dim=1)


class ReferenceMinGru(MinGru):
    """The same parameters and gates; every state is made of the one before."""

    def states(
        self,
        log_decay: Float[Tensor, "B L E"],
        inputs: Float[Tensor, "B L E"],
        document_starts: Bool[Tensor, "B L"] | None,
        start: Float[Tensor, "B E"] | None = None,
    ) -> Float[Tensor, "B L E"]:
        return states_one_by_one(log_decay, inputs, document_starts, start)


class ReferenceMinLstm(MinLstm):
    """The same parameters and gates; every state is made of the one before."""

    def states(
        self,
        log_decay: Float[Tensor, "B L E"],
        inputs: Float[Tensor, "B L E"],
        document_starts: Bool[Tensor, "B L"] | None,
        start: Float[Tensor, "B E"] | None = None,
    ) -> Float[Tensor, "B L E"]:
        return states_one_by_one(log_decay, inputs, document_starts, start)


class ReferenceRgLru(RgLru):
    """The same parameters and gates; every state is made of the one before."""

    def states(
        self,
        log_decay: Float[Tensor, "B L E"],
        inputs: Float[Tensor, "B L E"],
        document_starts: Bool[Tensor, "B L"] | None,
        start: Float[Tensor, "B E"] | None = None,
    ) -> Float[Tensor, "B L E"]:
        return states_one_by_one(log_decay, inputs, document_starts, start)


Cell = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
"""The next states, the first of them the output, from a token and the states before."""


@dataclass(frozen=True)
class Products:
    """W x + b and U h + c, all gates side by side."""

    of_token: Float[Tensor, "B E"]
    of_state: Float[Tensor, "B E"]


def products(kernel: nn.RNNBase, x: Float[Tensor, "B D"], state: Float[Tensor, "B D"]) -> Products:
    """Return the products with the parameters of a kernel with one layer."""
    held = dict(kernel.named_parameters())
    of_token, of_state = x @ held["weight_ih_l0"].mT, state @ held["weight_hh_l0"].mT
    if kernel.bias:
        of_token, of_state = of_token + held["bias_ih_l0"], of_state + held["bias_hh_l0"]
    return Products(of_token, of_state)


def through_time(x: Float[Tensor, "B L D"], cell: Cell, *, num_states: int) -> Float[Tensor, "B L D"]:
    """Return the outputs of all tokens."""
    # A first state with a gradient, as a learned one would have, so that every token costs the same.
    first = torch.zeros_like(x[:, 0]).requires_grad_(torch.is_grad_enabled())
    states, outputs = (first,) * num_states, []
    for token in x.unbind(1):
        states = cell(token, states)
        outputs.append(states[0])
    return torch.stack(outputs, dim=1)


class ReferenceGru(Gru):
    """The same parameters."""

    def read(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return through_time(x, self._cell, num_states=1)

    def _cell(self, x: Float[Tensor, "B D"], states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        made = products(self.kernel, x, states[0])
        reset_x, update_x, new_x = made.of_token.chunk(3, dim=-1)
        reset_h, update_h, new_h = made.of_state.chunk(3, dim=-1)
        reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
        candidate = torch.tanh(new_x + reset * new_h)
        return ((1 - update) * candidate + update * states[0],)


class ReferenceLstm(Lstm):
    """The same parameters."""

    def read(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return through_time(x, self._cell, num_states=2)

    def _cell(self, x: Float[Tensor, "B D"], states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        made = products(self.kernel, x, states[0])
        write, forget, new, show = (made.of_token + made.of_state).chunk(4, dim=-1)
        cell = torch.sigmoid(forget) * states[1] + torch.sigmoid(write) * torch.tanh(new)
        return torch.sigmoid(show) * torch.tanh(cell), cell


class ReferenceTanhRnn(TanhRnn):
    """The same parameters."""

    def read(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return through_time(x, self._cell, num_states=1)

    def _cell(self, x: Float[Tensor, "B D"], states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        made: Products = products(self.kernel, x, states[0])
        return (torch.tanh(made.of_token + made.of_state),)


class ReferenceSlstm(Slstm):
    """The same parameters, in the paper's equations, with the gradient of the scale followed."""

    def read(
        self, of_tokens: Float[Tensor, "B L 4 H K"], document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B L H K"]:
        recurrent = self.recurrent.to(of_tokens.dtype).unflatten(1, (4, -1))
        first = torch.zeros_like(of_tokens[:, 0, 0]).requires_grad_(torch.is_grad_enabled())
        h = c = n = first
        m, outputs = torch.full_like(first, float("-inf")), []
        for t, token in enumerate(of_tokens.unbind(1)):
            if document_starts is not None:
                begins = document_starts[:, t, None, None]
                h, c, n = (part.masked_fill(begins, 0.0) for part in (h, c, n))
                m = m.masked_fill(begins, float("-inf"))
            z, i, f, o = (token + (h[:, None, :, None] @ recurrent.mT.transpose(0, 1)).squeeze(-2)).unbind(1)
            scale = torch.maximum(torch.nn.functional.logsigmoid(f) + m, i)
            let_in, forget = (i - scale).exp(), f.sigmoid() * (m - scale).exp()
            c, n, m = forget * c + let_in * z.tanh(), forget * n + let_in, scale
            h = o.sigmoid() * c / n
            outputs.append(h)
        return torch.stack(outputs, 1)
