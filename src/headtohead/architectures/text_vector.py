"""A head that makes one vector of a text, to be compared with those of other texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Head
from headtohead.architectures.pooling import known_pooling, make_pooler, pool
from headtohead.components.costs import CostQuery, Costs
from headtohead.components.linear_maps import linear_costs


class TextVector(Head):
    """One vector per sequence, of which nothing is read: tasks compare it with others. A `pooler` transforms it here,
    as the projection of contrastive learning does (Gao et al. 2021, https://arxiv.org/abs/2104.08821), and no
    longer where texts are embedded."""

    def __init__(self, d_model: int, *, pooling: str, pooler: str = "none") -> None:
        super().__init__()
        self.pooling, self.d_model = known_pooling(pooling), d_model
        self.pooler = make_pooler(pooler, d_model)

    def forward(
        self,
        features: Float[Tensor, "B L D"],
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B D"]:
        del token_types
        pooled = pool(features, valid, self.pooling)
        return pooled if self.pooler is None else self.pooler(pooled)

    def cost_rows(self, query: CostQuery) -> Iterator[tuple[str, str, Costs]]:
        """Yield the costs once per sequence, however long."""
        if self.pooler is not None:
            once, width = replace(query, length=1), self.d_model
            saved = Costs(activation_bytes=width * query.bytes_per_element)  # what its activation reads or writes
            yield "head.pooler", "head", linear_costs(width, width, width * width + width, once) + saved
