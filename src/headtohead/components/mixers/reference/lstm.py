"""Long short-term memory token by token, its equations written out: the yardstick for outputs, gradients, FLOPs."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.mixers import lstm as fast
from headtohead.components.mixers.reference.cells import products, through_time


class Lstm(fast.Lstm):
    """The same parameters."""

    def read(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return through_time(x, self._cell, num_states=2)

    def _cell(self, x: Float[Tensor, "B D"], states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        made = products(self.kernel, x, states[0])
        write, forget, new, show = (made.of_token + made.of_state).chunk(4, dim=-1)
        cell = torch.sigmoid(forget) * states[1] + torch.sigmoid(write) * torch.tanh(new)
        return torch.sigmoid(show) * torch.tanh(cell), cell
