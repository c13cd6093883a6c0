"""Additive attention: one small network scores every pair of a state and an annotation (Bahdanau et al. 2015,
https://arxiv.org/abs/1409.0473)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.contracts import Context, CostQuery, Costs
from headtohead.components.linears import ResidualLinear, ScoreLinear
from headtohead.components.mixers.single_attention import AnnotationState, SingleAttention
from headtohead.errors import UsageError
from headtohead.ranges import Width


class BahdanauAttention(SingleAttention):
    """softmax_j(v . tanh(W x_i + U h_j)) over the annotations h; what is found joins the state that asked: C [x; c]."""

    def __init__(self, d_model: int, *, num_heads: int, dropout: float = 0.0, score_width: Width | None = None) -> None:
        super().__init__(d_model, num_heads=num_heads, dropout=dropout)
        width = d_model if score_width is None else score_width
        if width < 1:
            raise UsageError(f"score_width={width} must be at least 1, or null for the model's width")
        self.score_width = width
        self.query = ScoreLinear(d_model, width)
        self.key = ScoreLinear(d_model, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)
        self.output = ResidualLinear(2 * d_model, d_model)

    def read(self, context: Context) -> AnnotationState:
        memory, bias = self.annotations(context)
        return AnnotationState(memory.shape[1], self.key(memory), memory, bias)

    def scores(self, x: Float[Tensor, "B L D"], state: AnnotationState) -> Float[Tensor, "B L S"]:
        assert state.keys is not None
        pairs = torch.tanh(self.query(x)[:, :, None] + state.keys[:, None])
        y: Tensor = self.score(pairs).squeeze(-1)
        return y

    def join(self, x: Float[Tensor, "B L D"], found: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        y: Tensor = self.output(torch.cat((x, found), dim=-1))
        return y

    def costs(self, query: CostQuery) -> Costs:
        n, m, d, a = query.length, query.memory_length, self.d_model, self.score_width
        dropped = n * m if self.dropout > 0 else 0
        return Costs.of(
            self,
            forward_flops=2 * n * d * a + 2 * m * d * a + 2 * n * m * a + 2 * n * m * d + 4 * n * d * d,
            state_elements=m * (a + d),
            activation_bytes=(n * d + n * m * (a + 1) + dropped + 2 * n * d) * query.bytes_per_element,
        )
