"""Residual wirings: how the sublayers of a block meet the stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.contracts import Context, CostQuery, Costs, Norm, NormFactory, Sublayer, Wiring
from headtohead.components.dropping import Branch


class Pre(Wiring):
    """x + f(norm(x)) (Xiong et al. 2020, https://arxiv.org/abs/2002.04745)."""

    needs_final_norm = True

    def __init__(
        self,
        norm: NormFactory,
        d_model: int,
        *,
        num_layers: int,
        num_sublayers: int = 2,
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        del num_layers
        self.norms = nn.ModuleList(norm(d_model) for _ in range(num_sublayers))
        self.drop = Branch(d_model, num_sublayers, dropout=dropout, drop_path=drop_path)

    def forward(
        self, x: Float[Tensor, "B L D"], sublayers: Sequence[Sublayer], context: Context
    ) -> Float[Tensor, "B L D"]:
        for norm, sublayer in zip(self.norms, sublayers, strict=True):
            x = x + self.drop(sublayer(norm(x, context)))
        return x

    def costs(self, query: CostQuery) -> Costs:
        return sum((norm.costs(query) for norm in cast(list[Norm], list(self.norms))), self.drop.costs(query))
