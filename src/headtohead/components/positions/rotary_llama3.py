"""The scaling of Llama 3.1: by wavelength, in parts of the trained length (Grattafiori et al. 2024,
https://arxiv.org/abs/2407.21783, and its published code)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.contracts import Grid
from headtohead.components.positions.rotary import Pairing, plain_frequencies
from headtohead.components.positions.scaled_rotary import ScaledRotary, trained_length
from headtohead.errors import UsageError
from headtohead.ranges import AtLeastOne, Length, Positive, Share, Width


class RotaryLlama3(ScaledRotary):
    """A pair that turns more than `fast_turns` times within the trained length keeps its frequency, one that turns
    fewer than `slow_turns` times has it divided by the factor; between, the share kept grows with the turns."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        base: Positive = 10000.0,
        fraction: Share = 1.0,
        pairing: Pairing = "half",
        head_width: Width | None = None,
        factor: AtLeastOne = 4.0,
        original_length: Length | None = None,
        fast_turns: Positive = 4.0,
        slow_turns: Positive = 1.0,
    ) -> None:
        super().__init__(
            d_model,
            num_heads=num_heads,
            max_length=max_length,
            causal=causal,
            grid=grid,
            base=base,
            fraction=fraction,
            pairing=pairing,
            head_width=head_width,
            factor=factor,
        )
        if fast_turns <= slow_turns:
            raise UsageError(f"fast_turns={fast_turns} must be above slow_turns={slow_turns}: Llama has 4 and 1")
        self.original_length = trained_length("rotary_llama3", original_length, max_length)
        self.fast_turns, self.slow_turns = fast_turns, slow_turns

    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        kept = plain_frequencies(self.rotated // 2, self.base, device, dtype)
        turns = self.original_length * kept / (2 * math.pi)
        share = ((turns - self.slow_turns) / (self.fast_turns - self.slow_turns)).clamp(0.0, 1.0)
        return kept * share + kept / self.factor * (1.0 - share)
