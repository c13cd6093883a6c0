"""Mamba one token at a time, as its equations stand."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.mixers import mamba as fast


class Mamba(fast.Mamba):
    """The same parameters; every state is made of the one before."""

    def read(self, chosen: fast.Selection, begins: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L E"]:
        A = self.rates()
        h = torch.zeros_like(chosen.value[:, 0, :, None] * A)
        y = []
        for t in range(chosen.value.shape[1]):
            step, value = chosen.step[:, t, :, None], chosen.value[:, t, :, None]
            if begins is not None:
                h = h.masked_fill(begins[:, t, None, None], 0.0)
            h = (step * A).exp() * h + (step * value) @ chosen.B[:, t, None].to(step.dtype)
            y.append(h @ chosen.C[:, t, :, None].to(h.dtype))
        return torch.stack(y, dim=1).squeeze(-1).to(chosen.value.dtype)
