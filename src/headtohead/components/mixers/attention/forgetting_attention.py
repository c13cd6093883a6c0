"""The forgetting transformer (Lin et al. 2025, https://arxiv.org/abs/2503.02130): softmax attention whose scores fall
by what every token after the key chose to forget."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Context, State, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import DecodingMap, LinearMap
from headtohead.components.mixers.attention.softmax_attention import (
    AttentionHeads,
    KeyValueState,
    SoftmaxAttention,
    merge_heads,
)
from headtohead.components.precision import at_least_float32


@dataclass
class ForgettingState(KeyValueState):
    """Keys and values, and how much was forgotten up to each of them."""

    forgotten: Float[Tensor, "B G M"] | None = None

    def forget(self, log_forget: Float[Tensor, "B G L"]) -> Float[Tensor, "B G M"]:
        """Append the tokens' log forget gates, before their keys, and return the sums up to every token."""
        assert self.forgotten is not None, "a state comes from initial_state"
        start, end = self.length, self.length + log_forget.shape[2]
        before = self.forgotten[..., start - 1 : start] if start else 0.0
        self.forgotten[..., start:end] = log_forget.cumsum(-1) + before
        return self.forgotten[..., :end]


class ForgettingAttention(SoftmaxAttention):
    """softmax(q_t k_s^T / sqrt(K) + log f_(s+1) + ... + log f_t) v_s with f = sigmoid(x w + b) for each head of keys.

    The sum is c_t - c_s, of which the softmax reads -c_s alone: a channel of the keys that every query reads, so that
    the fused kernel computes it. In 16 bits it takes three channels, each the rest of those before."""

    follows_order = True
    no_mup_rule = "no rule is published for its forget gates"
    can_be_bidirectional = False

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
        self.forget = LinearMap(d_model, self.num_kv_heads)

    def log_forget(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B G L"]:
        """Return the logs of the forget gates, in float32 at least."""
        return F.logsigmoid(self.forget(x).to(at_least_float32(x.dtype))).transpose(1, 2)

    def project(
        self, x: Float[Tensor, "B L D"], context: Context, fused: DecodingMap | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project(x, context, fused)
        return *self._with_decay(q, k, self.log_forget(x).cumsum(-1)), v

    def _with_decay(
        self, q: Float[Tensor, "B H L K"], k: Float[Tensor, "B G M K"], forgotten: Float[Tensor, "B G M"]
    ) -> tuple[Tensor, Tensor]:
        """Return queries and keys whose scores hold -c_s too."""
        rest, channels = -forgotten[..., None], []
        for _ in range(_channels(q.dtype.itemsize)):
            channels.append(rest.to(k.dtype))
            rest = rest - channels[-1].to(rest.dtype)
        reads = q.new_full((1, 1, 1, 1), 1.0 / self.scale).expand(*q.shape[:3], len(channels))
        return torch.cat((q, reads), dim=-1), torch.cat((k, *channels), dim=-1)

    def full_bias(self, q: Float[Tensor, "B H L E"], context: Context) -> Float[Tensor, "#B #H #L M"] | None:
        """Return the bias of the queries themselves, without the channels that read what was forgotten."""
        return super().full_bias(q[..., : self.head_width].contiguous(), context)

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        state = super().initial_state(batch_size, max_length, device=device, dtype=dtype)
        assert isinstance(state, KeyValueState)
        forgotten = torch.zeros(batch_size, self.num_kv_heads, max_length, device=device, dtype=at_least_float32(dtype))
        return ForgettingState(0, state.keys, state.values, state.fused, forgotten)

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        assert isinstance(state, ForgettingState)
        q, k, v = super().project(x, context, state.fused)
        bias = self.full_bias(q, context)
        forgotten = state.forget(self.log_forget(x))
        keys, values = state.append(k, v)
        y = self.read_next(*self._with_decay(q, keys, forgotten), values, bias)
        return self.project_output(merge_heads(y), x), state

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        """Return None: every device would need the gates of its own heads."""
        return None

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of softmax attention and of the gates."""
        n, groups = query.length, self.num_kv_heads
        full = super().costs(query)
        return Costs.of(
            self,
            forward_flops=full.forward_flops + 2 * n * self.d_model * groups,
            state_elements=full.state_elements + n * groups,
            activation_bytes=full.activation_bytes + 2 * n * groups * max(4, query.bytes_per_element),
        )

    def kernel_extras(self, query: CostContext) -> tuple[int, int]:
        return 0, _channels(query.bytes_per_element)


def _channels(bytes_per_element: int) -> int:
    """Return how many numbers of this size hold one of 24 bits."""
    return 3 if bytes_per_element < 4 else 1
