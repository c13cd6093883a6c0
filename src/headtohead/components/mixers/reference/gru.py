"""Gated recurrent units token by token, their equations written out: the yardstick for outputs, gradients, FLOPs."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.mixers import gru as fast
from headtohead.components.mixers.reference.cells import products, through_time


class Gru(fast.Gru):
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
