"""YaRN: fast pairs stay, slow ones are interpolated, those between are blended, and attention is sharpened (Peng et
al. 2023, https://arxiv.org/abs/2309.00071)."""

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


class RotaryYarn(ScaledRotary):
    """A pair that turns more than `fast_turns` times within the trained length keeps its frequency; one that turns
    fewer than `slow_turns` times has it divided by the factor."""

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
        fast_turns: Positive = 32.0,
        slow_turns: Positive = 1.0,
        magnitude: Positive | None = None,
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
            raise UsageError(f"fast_turns={fast_turns} must be above slow_turns={slow_turns}: the paper has 32 and 1")
        self.original_length = trained_length("rotary_yarn", original_length, max_length)
        self.fast_turns, self.slow_turns = fast_turns, slow_turns
        # sqrt(1/t) of the paper, on queries and on keys.
        self.magnitude = 0.1 * math.log(factor) + 1.0 if magnitude is None else magnitude

    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        kept = plain_frequencies(self.rotated // 2, self.base, device, dtype)
        # As in the authors' code, the two borders are whole pairs.
        first = max(math.floor(self._pair_with(self.fast_turns)), 0)
        last = min(math.ceil(self._pair_with(self.slow_turns)), self.rotated - 1)
        pairs = torch.arange(len(kept), device=device, dtype=kept.dtype)
        share = ((pairs - first) / max(last - first, 0.001)).clamp(0.0, 1.0)
        return kept * (1.0 - share) + kept / self.factor * share

    def _pair_with(self, turns: float) -> float:
        """The number of the pair, not whole, that turns so often within the trained length."""
        wavelength = self.original_length / turns
        return self.rotated * math.log(wavelength / (2 * math.pi)) / (2 * math.log(self.base))
