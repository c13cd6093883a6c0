"""The tanh network token by token, its equation written out: the yardstick for outputs, gradients, FLOPs."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.mixers import rnn as fast
from headtohead.components.mixers.reference.cells import Products, products, through_time


class TanhRnn(fast.TanhRnn):
    """The same parameters."""

    def read(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return through_time(x, self._cell, num_states=1)

    def _cell(self, x: Float[Tensor, "B D"], states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        made: Products = products(self.kernel, x, states[0])
        return (torch.tanh(made.of_token + made.of_state),)
