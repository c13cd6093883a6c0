"""The short convolution one token at a time: the yardstick for outputs, gradients, FLOPs."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.mixers import short_conv as fast


class ShortConvolution(fast.ShortConvolution):
    """The same parameters; every output from its own few tokens."""

    def convolve(self, x: Float[Tensor, "B M D"]) -> Float[Tensor, "B L D"]:
        rows = []
        for first in range(x.shape[1] - self.kernel + 1):
            seen = x[:, first : first + self.kernel]
            y = torch.einsum("bkd,dk->bd", seen, self.weight.to(x.dtype))
            rows.append(y if self.bias is None else y + self.bias.to(x.dtype))
        return torch.stack(rows, dim=1)
