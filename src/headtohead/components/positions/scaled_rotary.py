"""Rotary positions for sequences longer than those that a model was trained on: what the scalings share."""

from __future__ import annotations

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.contracts import Grid
from headtohead.components.positions.rotary import Pairing, Rotary
from headtohead.errors import UsageError
from headtohead.ranges import AtLeastOne, Positive, Share, Width


class ScaledRotary(Rotary):
    """Frequencies are lowered, so that `factor` times as many places turn by angles that training has shown."""

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
        )
        if factor < 1.0:
            raise UsageError(f"factor={factor} of a rotary scaling would shorten the context: choose 1 or more")
        self.factor = factor

    @abstractmethod
    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        """The lowered ones."""


def trained_length(name: str, original_length: int | None, max_length: int | None) -> int:
    """How many places a model has seen in training."""
    length = max_length if original_length is None else original_length
    if length is None or length < 1:
        raise UsageError(
            f"position={name} must know how long sequences were in training, and original_length={length} does not "
            "say: set the position's original_length, or model.max_length"
        )
    return length
