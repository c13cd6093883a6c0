"""Position interpolation: places are squeezed into those of training (Chen et al. 2023,
https://arxiv.org/abs/2306.15595)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.positions.rotary import plain_frequencies
from headtohead.components.positions.scaled_rotary import ScaledRotary


class RotaryLinear(ScaledRotary):
    """Every pair turns `factor` times more slowly."""

    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        return plain_frequencies(self.rotated // 2, self.base, device, dtype) / self.factor
