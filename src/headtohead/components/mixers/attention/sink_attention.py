"""Softmax attention in which every head has a sink: a learned score that takes part in the softmax and brings no value,
so that a head may attend to nothing (Xiao et al. 2023, https://arxiv.org/abs/2309.17453; learned, beside all keys or
those of a window, as in gpt-oss, https://arxiv.org/abs/2508.10925)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.attention_maps import softmax_weights
from headtohead.components.component import Context, TensorParallelPlan
from headtohead.components.costs import CostContext
from headtohead.components.mixers.attention.fused_attention import attend
from headtohead.components.mixers.attention.sliding_window import SlidingWindow
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.mixers.attention.windowed_attention import attend_blocks
from headtohead.ranges import Length


class SinkAttention(SoftmaxAttention):
    """sum_s exp(q k_s^T / sqrt(K)) v_s / (exp(b) + sum_s exp(q k_s^T / sqrt(K))) with a number b for each head.

    The sink is one more key that is read through one more channel, so that the fused kernel computes it."""

    no_mup_rule = "no rule is published for its sinks"

    @property
    def saves_shared_bias(self) -> bool:
        return False

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        heads: AttentionHeads = AttentionHeads(),
    ) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, heads=heads)
        self.sink = nn.Parameter(torch.empty(num_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start with sinks that weigh as much as a key of score 0."""
        nn.init.zeros_(self.sink)

    def gives_shares(self, context: Context) -> bool:
        """Return False: the sink takes the rest of the sum."""
        del context
        return False

    def read(
        self,
        q: Float[Tensor, "B H L E"],
        k: Float[Tensor, "B G M E"],
        v: Float[Tensor, "B G M K"],
        *,
        bias: Float[Tensor, "#B #H #L M"] | None,
        causal: bool,
        dropout: float,
    ) -> Float[Tensor, "B H L K"]:
        q, k, bias = self.with_sink(q, k, bias)
        hides_ahead = causal and bias is None
        if hides_ahead:  # a first query before all others, for the kernel's mask: the sink alone
            q = F.pad(q, (0, 0, 1, 0))
        v = F.pad(v, (0, 1, 1, 0))
        y = attend(q, k, v, bias=bias, causal=causal, scale=self.scale, dropout=dropout)
        return y[:, :, int(hides_ahead) :, :-1]

    def weights(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B G M K"],
        bias: Float[Tensor, "#B #H #L M"] | None,
    ) -> Float[Tensor, "B H L M"]:
        q, k, bias = self.with_sink(q, k, bias)
        return softmax_weights(q, k, bias=bias, scale=self.scale)[..., 1:]

    def with_sink(
        self,
        q: Float[Tensor, "X Y L K"],
        k: Float[Tensor, "X Z M K"],
        bias: Float[Tensor, "#X #Y #L M"] | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return queries with a channel of the sink's score, keys with one that the sink alone answers, before all
        others; and a bias that leaves it visible. The heads of several rows may follow one another."""
        sinks = (self.sink / self.scale).to(q.dtype).repeat(q.shape[1] // self.num_heads)
        own = sinks[:, None, None].expand(*q.shape[:3], 1)
        only_sink = F.pad(k.new_ones(1, 1), (0, 0, 0, k.shape[2]))
        answers = only_sink.expand(*k.shape[:2], -1, -1)
        keys = torch.cat((F.pad(k, (0, 0, 1, 0)), answers), dim=-1)
        return torch.cat((q, own), dim=-1), keys, None if bias is None else F.pad(bias, (1, 0))

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        """Return None: every device would need the sinks of its own heads."""
        return None

    def kernel_extras(self, query: CostContext) -> tuple[int, int]:
        del query
        return 1, 1


class SinkWindow(SinkAttention, SlidingWindow):
    """The same sum over the keys of a window alone."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        window: Length = 128,
        heads: AttentionHeads = AttentionHeads(),
    ) -> None:
        SlidingWindow.__init__(
            self, d_model, num_heads=num_heads, causal=causal, dropout=dropout, window=window, heads=heads
        )
        self.sink = nn.Parameter(torch.empty(num_heads))
        self.reset_parameters()

    def read_blocks(
        self,
        q: Float[Tensor, "X Y C K"],
        k: Float[Tensor, "X Z S K"],
        v: Float[Tensor, "X Z S K"],
        bias: Float[Tensor, "#X #Y C S"],
        dropout: float,
    ) -> Float[Tensor, "X Y C K"]:
        q, k, with_room = self.with_sink(q, k, bias)
        assert with_room is not None
        y = attend_blocks(q, k, F.pad(v, (0, 1, 1, 0)), bias=with_room, scale=self.scale, dropout=dropout)
        return y[..., :-1]

    def saved_elements(self, query: CostContext) -> tuple[int, int]:
        """Count queries and outputs of whole blocks, the keys and values of each block, all with one more channel and
        one more key, and the mask of each block; if explicit, weights instead of masks; and a copy of merged heads."""
        blocks, groups, wide = self.blocks(query.length), self.num_heads // self.num_kv_heads, self.head_width + 1
        keys = 2 * blocks.number * (blocks.span + 1) * self.num_kv_heads * wide
        queries, merged = blocks.padded_length * self.num_heads, query.length * self.num_heads * self.head_width
        if query.explicit_attention:
            return queries * (wide + blocks.span + 1) + keys + merged, 0
        mask = max(query.biased_heads, groups) * blocks.padded_length * (blocks.span + 1)
        return 2 * queries * wide + keys + mask + merged, queries
