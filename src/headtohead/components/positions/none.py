"""No positions at all: order is known only through causality, or not at all."""

from __future__ import annotations

from headtohead.components.contracts import CostQuery, Costs, Grid, Position


class NoPosition(Position):
    """Does nothing."""

    no_width_rule = ""

    def __init__(
        self, d_model: int, *, num_heads: int, max_length: int | None, causal: bool, grid: Grid | None = None
    ) -> None:
        super().__init__()
        del d_model, num_heads, max_length, causal, grid

    def costs(self, query: CostQuery) -> Costs:
        del query
        return Costs()
