"""Attention from one sequence to another, the memory (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.attention_maps import HasAttentionMaps, softmax_weights
from headtohead.components.component import Context, CrossMixer, State, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap, ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.fused_attention import FUSED_ATTENTION, attend, takes_groups
from headtohead.components.mixers.attention.softmax_attention import equal_share, merge_heads, split_heads
from headtohead.components.sequence_ops.score_masks import as_bias
from headtohead.errors import UsageError
from headtohead.ranges import Positive, Width


@dataclass
class CrossAttentionState(State):
    """Keys and values of the memory, and its mask; `length` is that of the memory."""

    keys: Float[Tensor, "B G S K"] | None = None
    values: Float[Tensor, "B G S K"] | None = None
    bias: Float[Tensor, "B 1 1 S"] | None = None


class SoftmaxCrossAttention(CrossMixer, HasAttentionMaps):
    """Queries from x, keys and values from the memory."""

    no_mup_rule = ""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        dropout: float = 0.0,
        num_kv_heads: Width | None = None,
        head_width: Width | None = None,
        bias: bool = True,
        scale: Positive | None = None,
    ) -> None:
        super().__init__()
        width = equal_share(d_model, num_heads) if head_width is None else head_width
        self.num_heads, self.num_kv_heads = num_heads, num_heads if num_kv_heads is None else num_kv_heads
        if self.num_kv_heads < 1 or num_heads % self.num_kv_heads:
            raise UsageError(f"num_kv_heads={num_kv_heads} does not divide num_heads={num_heads}: choose a divisor")
        self.d_model, self.head_width, self.dropout = d_model, width, dropout
        self.scale = width**-0.5 if scale is None else scale
        self.query = ScoreLinear(d_model, num_heads * width, bias=bias)
        self.key = ScoreLinear(d_model, self.num_kv_heads * width, bias=bias)
        self.value = LinearMap(d_model, self.num_kv_heads * width, bias=bias)
        self.output = ResidualLinear(num_heads * width, d_model, bias=bias)

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """Return the kernel of scaled_dot_product_attention."""
        del device, dtype
        return FUSED_ATTENTION

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        return self.step(x, self.read(context), context)

    def tensor_parallel_plan(self) -> TensorParallelPlan:
        return TensorParallelPlan(
            ("query", "key", "value"), ("output",), num_units=self.num_kv_heads, unit_name="heads of keys and values"
        )

    def read(self, context: Context) -> CrossAttentionState:
        memory, valid = context.memory, context.memory_valid
        if memory is None:
            raise UsageError("a cross mixer needs context.memory: give the decoder what the encoder made")
        k = split_heads(self.key(memory), self.head_width)
        v = split_heads(self.value(memory), self.head_width)
        bias = None if valid is None else as_bias(valid[:, None, None, :], k.dtype)
        return CrossAttentionState(memory.shape[1], k, v, bias)

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> Float[Tensor, "B L D"]:
        del context
        assert isinstance(state, CrossAttentionState) and state.keys is not None and state.values is not None
        q = split_heads(self.query(x), self.head_width)
        dropout = self.dropout if self.training else 0.0
        y = attend(q, state.keys, state.values, bias=state.bias, causal=False, scale=self.scale, dropout=dropout)
        output: Tensor = self.output(merge_heads(y))
        return output

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        del causal
        state = self.read(context)
        assert state.keys is not None
        q = split_heads(self.query(x), self.head_width)
        return softmax_weights(q, state.keys, bias=state.bias, scale=self.scale)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        del x
        state = self.read(context)
        assert state.values is not None
        v = state.values.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
        y: Tensor = self.output(merge_heads(weights.to(v.dtype) @ v))
        return y

    def costs(self, query: CostContext) -> Costs:
        n, m, d = query.length, query.memory_length, self.d_model
        inner, kv = (heads * self.head_width for heads in (self.num_heads, self.num_kv_heads))
        shared = takes_groups(query.device, query.bytes_per_element, has_bias=False)
        saved = n * (d + 2 * inner) + 2 * m * (kv if shared else inner)
        return Costs.of(
            self,
            forward_flops=4 * n * d * inner + 4 * m * d * kv + 4 * n * m * inner,
            state_elements=2 * m * kv,
            activation_bytes=saved * query.bytes_per_element + 4 * n * self.num_heads,
        )
