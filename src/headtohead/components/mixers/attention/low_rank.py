"""Low-rank attention: every projection of the heads is a product of two thin matrices
(Winata et al. 2020, https://arxiv.org/abs/1910.13923)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import DecodingMap, LinearMap, ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.errors import UsageError
from headtohead.ranges import Width


class LowRankLinear(LinearMap):
    """x A B + b, with a width of `rank` between A and B; `weight` is B."""

    def __init__(self, width: int, outer: int, *, rank: int, bias: bool) -> None:
        super().__init__(rank, outer, bias=bias)
        self.down = LinearMap(width, rank, bias=False)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L E"]:
        return super().forward(self.down(x))


class LowRankScoreLinear(LowRankLinear, ScoreLinear):
    """Makes queries or keys."""


class LowRankResidualLinear(LowRankLinear, ResidualLinear):
    """Ends a branch."""


class LowRank(SoftmaxAttention):
    """Softmax attention whose query, key, value and output are of rank `rank` each, over all heads together."""

    no_mup_rule = "no rule is published for maps of a rank that does not grow with the width"

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        rank: Width | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
    ) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout)
        self.rank = rank = max(1, d_model // 4) if rank is None else rank
        if rank < 1:
            raise UsageError(f"rank={rank} leaves nothing of queries, keys and values: choose 1 or more, or null")
        self.query = LowRankScoreLinear(d_model, d_model, rank=rank, bias=bias)
        self.key = LowRankScoreLinear(d_model, d_model, rank=rank, bias=bias)
        self.value = LowRankLinear(d_model, d_model, rank=rank, bias=bias)
        output_bias = bias if output_bias is None else output_bias
        self.output = LowRankResidualLinear(d_model, d_model, rank=rank, bias=output_bias)

    def _fused(self) -> DecodingMap | None:
        """Return None, since each projection has a thin matrix of its own in front."""
        return None

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        return None

    def costs(self, query: CostContext) -> Costs:
        """Return the costs: the scores as in full attention, four projections of two matrices each, and the activations
        between these."""
        n, d, rank = query.length, self.d_model, self.rank
        full = super().costs(query)
        return Costs.of(
            self,
            forward_flops=full.forward_flops - 8 * n * d * d + 16 * n * d * rank,
            state_elements=full.state_elements,
            activation_bytes=full.activation_bytes + 4 * n * rank * query.bytes_per_element,
        )
