"""The attentions of recurrent networks share this base: one distribution over the memory for each token, and an output
that joins the attended memory and the querying state."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, CrossMixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import ResidualLinear, ScoreLinear
from headtohead.components.precision import at_least_float32
from headtohead.components.sequence_ops.score_masks import as_bias
from headtohead.errors import UsageError
from headtohead.ranges import Width


@dataclass
class AnnotationState(State):
    """The memory, what its scores need of it, and its mask; `length` is that of the memory."""

    keys: Float[Tensor, "B S A"] | None = None
    memory: Float[Tensor, "B S D"] | None = None
    bias: Float[Tensor, "B 1 S"] | None = None


class SingleQueryAttention(CrossMixer, HasAttentionMaps):
    """Subclasses define how pairs are scored, and how the attended memory joins the state. These papers have no heads,
    so that `num_heads` changes nothing; dropout acts on the weights."""

    def __init__(self, d_model: int, *, num_heads: int, dropout: float) -> None:
        super().__init__()
        del num_heads
        self.d_model, self.dropout = d_model, dropout

    @abstractmethod
    def read(self, context: Context) -> AnnotationState:
        """Return what decoding needs of the memory, made once."""

    @abstractmethod
    def scores(self, x: Float[Tensor, "B L D"], state: AnnotationState) -> Float[Tensor, "B L S"]:
        """Return the score of every state with every annotation."""

    @abstractmethod
    def join(self, x: Float[Tensor, "B L D"], result: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Join the states with what they attended to."""

    def annotations(self, context: Context) -> tuple[Tensor, Tensor | None]:
        """Return the memory, and its mask as a bias."""
        memory, valid = context.memory, context.memory_valid
        if memory is None:
            raise UsageError("a cross mixer needs context.memory: give the decoder what the encoder made")
        return memory, None if valid is None else as_bias(valid[:, None, None, :], memory.dtype)[:, 0]

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        return self.step(x, self.read(context), context)

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> Float[Tensor, "B L D"]:
        del context
        assert isinstance(state, AnnotationState) and state.memory is not None
        weights = F.dropout(self._weights(x, state), self.dropout, self.training)
        return self.join(x, weights.to(state.memory.dtype) @ state.memory)

    def _weights(self, x: Float[Tensor, "B L D"], state: AnnotationState) -> Float[Tensor, "B L S"]:
        """Return the weights in float32 at least; where no annotation is allowed, none has weight."""
        scores = self.scores(x, state)
        scores = scores.to(at_least_float32(scores.dtype))
        if state.bias is None:
            return scores.softmax(-1)
        scores = scores + state.bias.to(scores.dtype)
        empty = (scores == float("-inf")).all(-1, keepdim=True)
        return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B 1 L S"]:
        del causal
        return self._weights(x, self.read(context))[:, None]

    def mixed(
        self, weights: Float[Tensor, "B 1 L S"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        memory, _ = self.annotations(context)
        return self.join(x, weights[:, 0].to(memory.dtype) @ memory)


# Additive attention: one small network scores every pair of a state and an annotation (Bahdanau et al. 2015,
# https://arxiv.org/abs/1409.0473).


class BahdanauAttention(SingleQueryAttention):
    """softmax_j(v . tanh(W x_i + U h_j)) over the annotations h; the result c joins the querying state: C [x; c]."""

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

    def join(self, x: Float[Tensor, "B L D"], result: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        y: Tensor = self.output(torch.cat((x, result), dim=-1))
        return y

    def costs(self, query: CostContext) -> Costs:
        n, m, d, a = query.length, query.memory_length, self.d_model, self.score_width
        dropped = n * m if self.dropout > 0 else 0
        return Costs.of(
            self,
            forward_flops=2 * n * d * a + 2 * m * d * a + 2 * n * m * a + 2 * n * m * d + 4 * n * d * d,
            state_elements=m * (a + d),
            activation_bytes=(n * d + n * m * (a + 1) + dropped + 2 * n * d) * query.bytes_per_element,
        )


# Multiplicative attention of recurrent decoders, global, with its three scores (Luong et al. 2015,
# https://arxiv.org/abs/1508.04025).


Score = Literal["dot", "general", "concat"]


class LuongAttention(SingleQueryAttention):
    """softmax_j(score(x_i, h_j)) over the annotations h; the result c joins the querying state: tanh(C [x; c]).

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

    def join(self, x: Float[Tensor, "B L D"], result: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return torch.tanh(self.output(torch.cat((x, result), dim=-1)))

    def costs(self, query: CostContext) -> Costs:
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

    def saves_output(self, query: CostContext) -> bool:
        """Return True: the gradient of tanh is computed from its output."""
        del query
        return True
