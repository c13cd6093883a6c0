"""Token shift one token at a time: the yardstick for outputs and gradients."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.mixers import token_shift as fast


class TokenShift(fast.TokenShift):
    """The same parameters; every token asks who its neighbour is, channel by channel."""

    def read(self, x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L D"]:
        length, outputs = x.shape[1], []
        for place in range(length):
            channels = []
            for channel in range(self.d_model):
                beside = place - 1 if self.causal or channel % 2 == 0 else place + 1
                neighbour = torch.zeros_like(x[:, 0, channel])
                if 0 <= beside < length:
                    neighbour = x[:, beside, channel]
                    if valid is not None and beside > place:
                        neighbour = neighbour * valid[:, beside]
                share = self.share[channel].to(x.dtype)
                channels.append((1 - share) * x[:, place, channel] + share * neighbour)
            outputs.append(torch.stack(channels, dim=-1))
        return torch.stack(outputs, dim=1)
