"""These encodings add a vector for each position to the tokens, or none."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headtohead.components.component import Grid, Position
from headtohead.components.costs import CostContext, Costs
from headtohead.components.precision import at_least_float32
from headtohead.errors import UsageError
from headtohead.ranges import Positive


class NoPosition(Position):
    """A position encoding that changes nothing."""

    no_mup_rule = ""

    def __init__(
        self, d_model: int, *, num_heads: int, max_length: int | None, causal: bool, grid: Grid | None = None
    ) -> None:
        super().__init__()
        del d_model, num_heads, max_length, causal, grid

    def costs(self, query: CostContext) -> Costs:
        del query
        return Costs()


# One learned vector per position, added to the tokens (Gehring et al. 2017, https://arxiv.org/abs/1705.03122).


class Learned(Position):
    """A table of `max_length` vectors; there are no positions beyond it."""

    no_mup_rule = ""
    adds_to_tokens = True

    def __init__(
        self, d_model: int, *, num_heads: int, max_length: int | None, causal: bool, grid: Grid | None = None
    ) -> None:
        super().__init__()
        del num_heads, causal, grid
        if max_length is None or max_length < 1:
            raise UsageError(
                f"position=learned needs a table, and max_length={max_length} gives it no size: set model.max_length"
            )
        self.max_length = max_length
        self.table = nn.Embedding(max_length, d_model)

    def add(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "#B L"]) -> Float[Tensor, "B L D"]:
        y: Tensor = x + self.table(positions)
        return y

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves the indices."""
        return Costs.of(self, activation_bytes=8 * query.length)


# Sines and cosines of the position, added to the tokens (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762).


class Sinusoidal(Position):
    """Channels 2i and 2i+1 hold the sine and cosine of position / base^(2i/D)."""

    no_mup_rule = ""
    adds_to_tokens = True
    width_multiple = 2

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        base: Positive = 10000.0,
    ) -> None:
        super().__init__()
        del num_heads, max_length, causal, grid
        if d_model % 2:
            raise UsageError(f"position=sinusoidal pairs channels, and d_model={d_model} is odd: choose an even width")
        self.d_model, self.base = d_model, base

    def add(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "#B L"]) -> Float[Tensor, "B L D"]:
        return x + waves(positions, self.d_model, self.base, x.dtype)

    def costs(self, query: CostContext) -> Costs:
        del query
        return Costs()


def waves(positions: Int[Tensor, "#B L"], width: int, base: float, dtype: torch.dtype) -> Float[Tensor, "#B L D"]:
    """Return sines, then cosines, of width/2 frequencies, computed in float32 at least."""
    exact = at_least_float32(dtype)
    exponents = torch.arange(0, width, 2, device=positions.device, dtype=exact) / width
    angles = positions[..., None].to(exact) * base**-exponents
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).to(dtype)
