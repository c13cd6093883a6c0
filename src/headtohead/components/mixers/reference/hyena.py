"""Hyena's long convolution as the sum that it is."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.mixers import hyena as fast


class Hyena(fast.Hyena):
    """The same parameters; every token meets every other at their distance."""

    def long(self, z: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        sides, length = self.responses(z.shape[1]), z.shape[1]
        y = []
        for t in range(length):
            total = torch.zeros_like(sides[0][0] * z[:, 0])
            for s in range(t + 1 if self.causal else length):
                total = total + (sides[0][t - s] if s <= t else sides[1][s - t]) * z[:, s]
            y.append(total)
        return torch.stack(y, dim=1).to(z.dtype)
