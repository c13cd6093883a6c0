"""NTK-aware scaling: the slowest pair is interpolated in full, the fastest hardly at all (bloc97 2023, appendix A of
https://arxiv.org/abs/2309.00071).

Its dynamic form, whose factor follows the length of the sequence at hand, is left out: tokens already read would have
to turn again with every new one, so that decoding step by step would differ from reading at once.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.positions.rotary import plain_frequencies
from headtohead.components.positions.scaled_rotary import ScaledRotary


class RotaryNtk(ScaledRotary):
    """The base grows by factor^(R / (R - 2)), which lowers the last of R/2 frequencies by the factor."""

    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        if self.rotated == 2:  # one pair, which turns by 1 whatever the base
            return plain_frequencies(1, self.base, device, dtype)
        base = self.base * self.factor ** (self.rotated / (self.rotated - 2))
        return plain_frequencies(self.rotated // 2, base, device, dtype)
