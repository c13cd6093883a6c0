"""One learned vector per place, added to the tokens (Gehring et al. 2017, https://arxiv.org/abs/1705.03122)."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from headtohead.components.contracts import CostQuery, Costs, Grid, Position
from headtohead.errors import UsageError


class Learned(Position):
    """A table of `max_length` vectors; nothing is known beyond it."""

    no_width_rule = ""
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

    def costs(self, query: CostQuery) -> Costs:
        """Autograd keeps the indices."""
        return Costs.of(self, activation_bytes=8 * query.length)
