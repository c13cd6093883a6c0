"""RWKV-4's time mixing one token at a time, every weight as it is written."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.mixers import rwkv4 as fast


class Rwkv4(fast.Rwkv4):
    """The same parameters; every token weighs anew all that it may look at."""

    def mean(
        self, k: Float[Tensor, "B L E"], v: Float[Tensor, "B L E"], begins: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B L E"]:
        y = []
        for t in range(k.shape[1]):
            gaps = torch.arange(t - 1, -1, -1, dtype=k.dtype, device=k.device)
            past = k[:, :t] + gaps[:, None] * self.log_decay()
            scores = torch.cat((past, k[:, t, None] + self.time_first), dim=1)
            if begins is not None:
                number = begins.cumsum(1)
                scores = scores.masked_fill((number[:, : t + 1] != number[:, t, None])[..., None], float("-inf"))
            y.append((scores.softmax(1) * v[:, : t + 1]).sum(1))
        return torch.stack(y, dim=1).to(v.dtype)
