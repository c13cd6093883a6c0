"""The scalings of rotary positions for sequences longer than those of training share this base."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Grid
from headtohead.components.positions.rotary import Rotary, RotatedPairs, plain_frequencies
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import AtLeastOne, Length, Positive


class ScaledRotary(Rotary):
    """A rotary position with lowered frequencies, so that `factor` times as many positions rotate by angles seen in
    training."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        pairs: RotatedPairs = RotatedPairs(),
        factor: AtLeastOne = 4.0,
    ) -> None:
        super().__init__(
            d_model,
            num_heads=num_heads,
            max_length=max_length,
            causal=causal,
            grid=grid,
            pairs=pairs,
        )
        if factor < 1.0:
            raise UsageError(f"factor={factor} of a rotary scaling would shorten the context: choose 1 or more")
        self.factor = factor

    @abstractmethod
    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        """Return the lowered frequencies."""


@dataclass(frozen=True)
class TrainedTurns(FieldGroup):
    """The turns of a pair within the trained length: one with more than `fast_turns` retains its frequency, one with
    fewer than `slow_turns` has it divided by the factor."""

    original_length: Length | None = None
    fast_turns: Positive = 4.0
    slow_turns: Positive = 1.0

    def check(self, published: str) -> None:
        """Raise UsageError where the turns are in the wrong order, with those that were published."""
        if self.fast_turns <= self.slow_turns:
            raise UsageError(f"fast_turns={self.fast_turns} must be above slow_turns={self.slow_turns}: {published}")

    def length(self, name: str, max_length: int | None) -> int:
        """Return the number of positions that the model saw in training."""
        length = max_length if self.original_length is None else self.original_length
        if length is None or length < 1:
            raise UsageError(
                f"position={name} must know how long sequences were in training, and original_length={length} does not "
                "say: set the position's original_length, or model.max_length"
            )
        return length


# Position interpolation: positions are scaled into the range of training (Chen et al. 2023,
# https://arxiv.org/abs/2306.15595).


class RotaryLinear(ScaledRotary):
    """Every pair turns `factor` times more slowly."""

    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        return plain_frequencies(self.rotated // 2, self.base, device, dtype) / self.factor


# NTK-aware scaling: the slowest pair is interpolated in full, the fastest hardly at all (bloc97 2023, appendix A of
# https://arxiv.org/abs/2309.00071).
#
# Its dynamic form, whose factor follows the length of the sequence at hand, is left out: tokens already read would have
# to turn again with every new one, so that decoding step by step would differ from reading at once.


class RotaryNtk(ScaledRotary):
    """The base grows by factor^(R / (R - 2)), which lowers the last of R/2 frequencies by the factor."""

    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        if self.rotated == 2:  # one pair, which turns by 1 whatever the base
            return plain_frequencies(1, self.base, device, dtype)
        base = self.base * self.factor ** (self.rotated / (self.rotated - 2))
        return plain_frequencies(self.rotated // 2, base, device, dtype)


# The scaling of Llama 3.1: by wavelength, in parts of the trained length (Grattafiori et al. 2024,
# https://arxiv.org/abs/2407.21783, and its published code).


class RotaryLlama3(ScaledRotary):
    """The retained share of a frequency grows with the turns from `slow_turns` to `fast_turns`."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        pairs: RotatedPairs = RotatedPairs(),
        factor: AtLeastOne = 4.0,
        turns: TrainedTurns = TrainedTurns(),
    ) -> None:
        super().__init__(
            d_model,
            num_heads=num_heads,
            max_length=max_length,
            causal=causal,
            grid=grid,
            pairs=pairs,
            factor=factor,
        )
        turns.check("Llama has 4 and 1")
        self.original_length = turns.length("rotary_llama3", max_length)
        self.fast_turns, self.slow_turns = turns.fast_turns, turns.slow_turns

    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        plain = plain_frequencies(self.rotated // 2, self.base, device, dtype)
        turns = self.original_length * plain / (2 * math.pi)
        share = ((turns - self.slow_turns) / (self.fast_turns - self.slow_turns)).clamp(0.0, 1.0)
        return plain * share + plain / self.factor * (1.0 - share)


# YaRN: fast pairs stay, slow ones are interpolated, those between are blended, and attention is sharpened (Peng et
# al. 2023, https://arxiv.org/abs/2309.00071).


class RotaryYarn(ScaledRotary):
    """The retained share of a frequency shrinks from pair to pair between `fast_turns` and `slow_turns`; these borders
    are whole pairs, unless `truncate` is false."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        pairs: RotatedPairs = RotatedPairs(),
        factor: AtLeastOne = 4.0,
        turns: TrainedTurns = TrainedTurns(fast_turns=32.0),
        magnitude: Positive | None = None,
        truncate: bool = True,
    ) -> None:
        super().__init__(
            d_model,
            num_heads=num_heads,
            max_length=max_length,
            causal=causal,
            grid=grid,
            pairs=pairs,
            factor=factor,
        )
        turns.check("the paper has 32 and 1")
        self.original_length = turns.length("rotary_yarn", max_length)
        self.fast_turns, self.slow_turns, self.truncate = turns.fast_turns, turns.slow_turns, truncate
        # sqrt(1/t) of the paper, on queries and on keys.
        self.magnitude = 0.1 * math.log(factor) + 1.0 if magnitude is None else magnitude

    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        plain = plain_frequencies(self.rotated // 2, self.base, device, dtype)
        fast, slow = self._pair_with(self.fast_turns), self._pair_with(self.slow_turns)
        if self.truncate:  # as in the authors' code
            fast, slow = math.floor(fast), math.ceil(slow)
        first, last = max(fast, 0), min(slow, self.rotated - 1)
        pairs = torch.arange(len(plain), device=device, dtype=plain.dtype)
        share = ((pairs - first) / max(last - first, 0.001)).clamp(0.0, 1.0)
        return plain * (1.0 - share) + plain / self.factor * share

    def _pair_with(self, turns: float) -> float:
        """Return the index of the pair, not whole, that turns so often within the trained length."""
        wavelength = self.original_length / turns
        return self.rotated * math.log(wavelength / (2 * math.pi)) / (2 * math.log(self.base))
