"""Multiplicative attention of recurrent decoders, global, with its three scores (Luong et al. 2015,
https://arxiv.org/abs/1508.04025)."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.contracts import Context, CostQuery, Costs
from headtohead.components.linears import ResidualLinear, ScoreLinear
from headtohead.components.mixers.single_attention import AnnotationState, SingleAttention
from headtohead.errors import UsageError

Score = Literal["dot", "general", "concat"]


class LuongAttention(SingleAttention):
    """softmax_j(score(x_i, h_j)) over the annotations h; what is found joins the state that asked: tanh(C [x; c]).

    The score is x . h (dot), x . W h (general) or v . tanh(W [x; h]) (concat).
    """

    def __init__(self, d_model: int, *, num_heads: int, dropout: float = 0.0, score: Score = "general") -> None:
        super().__init__(d_model, num_heads=num_heads, dropout=dropout)
        if score not in get_args(Score):
            raise UsageError(f"score={score} is unknown: choose one of {', '.join(get_args(Score))}")
        self.score = score
        self.query = ScoreLinear(d_model, d_model, bias=False) if score == "concat" else None
        self.key = ScoreLinear(d_model, d_model, bias=False) if score != "dot" else None
        self.weigh = nn.Linear(d_model, 1, bias=False) if score == "concat" else None
        self.output = ResidualLinear(2 * d_model, d_model, bias=False)

    def read(self, context: Context) -> AnnotationState:
        memory, bias = self.annotations(context)
        return AnnotationState(memory.shape[1], None if self.key is None else self.key(memory), memory, bias)

    def scores(self, x: Float[Tensor, "B L D"], state: AnnotationState) -> Float[Tensor, "B L S"]:
        keys = state.memory if state.keys is None else state.keys
        assert keys is not None
        if self.query is None or self.weigh is None:
            return x @ keys.mT
        # W [x; h] is the sum of two products, and that of h is made once.
        pairs = torch.tanh(self.query(x)[:, :, None] + keys[:, None])
        y: Tensor = self.weigh(pairs).squeeze(-1)
        return y

    def join(self, x: Float[Tensor, "B L D"], found: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return torch.tanh(self.output(torch.cat((x, found), dim=-1)))

    def costs(self, query: CostQuery) -> Costs:
        n, m, d = query.length, query.memory_length, self.d_model
        keys = 0 if self.score == "dot" else 2 * m * d * d
        queries = 2 * n * d * d if self.score == "concat" else 0
        pairs = n * m * d if self.score == "concat" else 0
        own_keys = m * d if self.score == "general" else 0
        dropped = n * m if self.dropout > 0 else 0
        return Costs.of(
            self,
            forward_flops=keys + queries + 4 * n * m * d + 4 * n * d * d,
            state_elements=m * d * (1 if self.score == "dot" else 2),
            activation_bytes=(4 * n * d + own_keys + n * m + pairs + dropped) * query.bytes_per_element,
        )
