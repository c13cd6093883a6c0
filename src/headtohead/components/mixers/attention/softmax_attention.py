"""Scaled dot-product attention (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762), multi-head, grouped
(Ainslie et al. 2023, https://arxiv.org/abs/2305.13245) or multi-query (Shazeer 2019, https://arxiv.org/abs/1911.02150).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.attention_maps import HasAttentionMaps, softmax_weights
from headtohead.components.component import PLAIN, Context, Mixer, State, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import DecodingMap, LinearMap, ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.fused_attention import FUSED_ATTENTION, attend, takes_groups
from headtohead.components.norms import RmsScale
from headtohead.components.sequence_ops.rotation import rotated_by_position
from headtohead.components.sequence_ops.score_masks import as_bias, causal_mask, with_score_masks
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Positive, Width


def split_heads(x: Float[Tensor, "B L E"], width: int) -> Float[Tensor, "B H L K"]:
    """Split the features into all heads, or into those of this device where heads are divided among several."""
    batch, length, _ = x.shape
    if length == 1:  # a view is enough
        return x.reshape(batch, -1, 1, width)
    return x.reshape(batch, length, -1, width).transpose(1, 2)


def merge_heads(x: Float[Tensor, "B H L K"]) -> Float[Tensor, "B L D"]:
    return x.reshape(len(x), 1, -1) if x.shape[2] == 1 else x.transpose(1, 2).flatten(2)


def equal_share(d_model: int, num_heads: int) -> int:
    """Return the width of one head, or raise an error if heads do not divide the width."""
    if num_heads < 1 or d_model % num_heads:
        raise UsageError(f"num_heads={num_heads} does not divide d_model={d_model}: choose a divisor of the width")
    return d_model // num_heads


_NARROW = 1024


@dataclass
class KeyValueState(State):
    """Keys and values of the tokens read so far, in room set aside for all that may come."""

    keys: Float[Tensor, "B G M K"] | None = None
    values: Float[Tensor, "B G M K"] | None = None
    fused: DecodingMap | None = None
    """The map that makes queries, keys and values in one product, where that is faster."""

    def append(self, k: Float[Tensor, "B G L K"], v: Float[Tensor, "B G L K"]) -> tuple[Tensor, Tensor]:
        """Append keys and values, and return all of them."""
        assert self.keys is not None and self.values is not None, "a state comes from initial_state"
        length = k.shape[2]
        end = self.length + length
        if end > self.keys.shape[2]:
            raise UsageError(
                f"{end} tokens do not fit a state made for max_length={self.keys.shape[2]}: make it longer"
            )
        if k.shape[1] < self.keys.shape[1]:  # the other heads are on other devices
            self.keys, self.values = self.keys[:, : k.shape[1]], self.values[:, : k.shape[1]]
        self.keys.narrow(2, self.length, length).copy_(k)
        self.values.narrow(2, self.length, length).copy_(v)
        self.length = end
        return self.keys.narrow(2, 0, end), self.values.narrow(2, 0, end)


NormedHeads = Literal["head", "all"]
"""The channels that a norm of queries or keys takes together: those of one head, or of all heads."""


@dataclass(frozen=True)
class AttentionHeads(FieldGroup):
    """The heads of softmax attention: how many share keys and values, and how they are projected, normalised and
    scaled."""

    num_kv_heads: Width | None = None
    head_width: Width | None = None
    bias: bool = True  # whether the projections to queries, keys and values have biases; the output's: output_bias
    output_bias: bool | None = None
    qk_norm: bool = False  # whether queries and keys are RMS-normalised, with gains, before they are rotated
    qk_norm_eps: Positive = 1e-6  # added to the mean square of queries and keys; unused without qk_norm
    qk_norm_over: NormedHeads = "head"
    scale: Positive | None = None

    def norm(self, num_heads: int, width: int) -> RmsScale | None:
        """Return the norm of queries, or of keys, where they have one."""
        if self.qk_norm_over not in get_args(NormedHeads):
            choices = ", ".join(get_args(NormedHeads))
            raise UsageError(f"qk_norm_over={self.qk_norm_over} is unknown: choose one of {choices}")
        if not self.qk_norm:
            return None
        if self.qk_norm_over == "all":
            return AllHeadsRmsNorm(num_heads * width, eps=self.qk_norm_eps)
        return RmsScale(width, eps=self.qk_norm_eps)


class AllHeadsRmsNorm(RmsScale):
    """x / rms(x) * weight over all heads of a token together, as OLMo 2 norms queries and keys
    (https://arxiv.org/abs/2501.00656)."""

    def forward(self, x: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L K"]:
        return split_heads(super().forward(merge_heads(x)), x.shape[-1])


class SoftmaxAttention(Mixer, HasAttentionMaps):
    """softmax(q k^T / sqrt(K)) v in H heads, with G of them for keys and values; where scores have a cap c, they are
    c tanh(q k^T / (c sqrt(K))), before masks and biases."""

    follows_order = False
    no_mup_rule = ""
    reads_scores = True
    reads_rotation = True
    meets_every_token: ClassVar[bool] = True
    """Whether each query meets all keys of the sequence, or all before it, as the formulas of the literature count."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        score_cap: Positive | None = None,
        rotated: bool = True,  # whether a rotary position turns queries and keys
        heads: AttentionHeads = AttentionHeads(),
    ) -> None:
        super().__init__()
        width = equal_share(d_model, num_heads) if heads.head_width is None else heads.head_width
        self.num_heads, self.num_kv_heads = num_heads, num_heads if heads.num_kv_heads is None else heads.num_kv_heads
        if self.num_kv_heads < 1 or num_heads % self.num_kv_heads:
            raise UsageError(
                f"num_kv_heads={heads.num_kv_heads} does not divide num_heads={num_heads}: choose a divisor"
            )
        self.d_model, self.head_width, self.causal, self.dropout = d_model, width, causal, dropout
        self.value_width = width
        self.scale = width**-0.5 if heads.scale is None else heads.scale
        self.score_cap, self.rotated = score_cap, rotated
        output_bias = heads.bias if heads.output_bias is None else heads.output_bias
        self.query = ScoreLinear(d_model, num_heads * width, bias=heads.bias)
        self.key = ScoreLinear(d_model, self.num_kv_heads * width, bias=heads.bias)
        self.value = LinearMap(d_model, self.num_kv_heads * width, bias=heads.bias)
        self.output = ResidualLinear(num_heads * width, d_model, bias=output_bias)
        self.query_norm, self.key_norm = (heads.norm(number, width) for number in (num_heads, self.num_kv_heads))

    @property
    def saves_shared_bias(self) -> bool:
        return self.score_cap is None

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """Return the kernel of scaled_dot_product_attention, which knows no cap."""
        del device, dtype
        return FUSED_ATTENTION if self.score_cap is None else PLAIN

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        dropout = self.dropout if self.training else 0.0
        y = self.read(q, k, v, bias=self.full_bias(q, context), causal=self.causal, dropout=dropout)
        return self.project_output(merge_heads(y), x)

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
        """Return the weighted sums of values; `causal` counts where there is no bias."""
        return attend(q, k, v, bias=bias, causal=causal, scale=self.scale, dropout=dropout, cap=self.score_cap)

    def project_output(self, y: Float[Tensor, "B L E"], x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Return the output made of what the heads read for the tokens x."""
        del x
        output: Tensor = self.output(y)
        return output

    def project(
        self, x: Float[Tensor, "B L D"], context: Context, fused: DecodingMap | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values by head, normalised and rotated as configured."""
        if fused is not None:
            return self._project_in_one(x, context, fused)
        q, k, v = (split_heads(part(x), self.head_width) for part in (self.query, self.key, self.value))
        if self.query_norm is not None and self.key_norm is not None:
            q, k = self.query_norm(q), self.key_norm(k)
        return *(rotated_by_position(q, k, context) if self.rotated else (q, k)), v

    def _project_in_one(
        self, x: Float[Tensor, "B L D"], context: Context, fused: DecodingMap
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same by one product, where queries and keys that rotate alike do so together."""
        scored = (self.num_heads, self.num_kv_heads)
        heads = split_heads(fused(x), self.head_width)
        qk, v = heads.split_with_sizes((sum(scored), self.num_kv_heads), dim=1)
        if self.query_norm is not None and self.key_norm is not None:
            q, k = qk.split_with_sizes(scored, dim=1)
            qk = torch.cat((self.query_norm(q), self.key_norm(k)), dim=1)
        turns, encoding, rotation = self.rotated, context.encoding, context.rotation
        if turns and encoding is not None and rotation is not None and encoding.rotates_keys_alike:
            qk, turns = encoding.rotate(qk, rotation), False
        q, k = qk.split_with_sizes(scored, dim=1)
        return *(rotated_by_position(q, k, context) if turns else (q, k)), v

    def full_bias(self, q: Float[Tensor, "B H L K"], context: Context) -> Float[Tensor, "#B #H #L M"] | None:
        """Return the shared bias plus the part of the encoding's bias that depends on these queries."""
        encoding, bias = context.encoding, context.bias
        if encoding is None or not encoding.bias_reads_queries:
            return bias
        assert context.positions is not None, "the stack fills positions first"
        keys = context.positions if context.key_positions is None else context.key_positions
        own = encoding.bias(q, context.positions, keys)
        assert own is not None and bias is not None, "an encoding that biases scores has an explicit mask"
        return own * self.scale + bias

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        q, k, _ = self.project(x, context)
        causal = self.causal if causal is None else causal
        if causal != self.causal:  # the shared mask holds the model's own direction
            context = with_score_masks(context, x, causal=causal)
        bias = self.full_bias(q, context)
        if bias is None and causal:
            bias = as_bias(causal_mask(x.shape[1], x.shape[1], x.device), q.dtype)
        return self.weights(q, k, bias)

    def weights(
        self,
        q: Float[Tensor, "B H L E"],
        k: Float[Tensor, "B G M E"],
        bias: Float[Tensor, "#B #H #L M"] | None,
    ) -> Float[Tensor, "B H L M"]:
        """Return the weights by which `read` sums values."""
        return softmax_weights(q, k, bias=bias, scale=self.scale, cap=self.score_cap)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        _, _, v = self.project(x, context)
        v = v.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
        return self.project_output(merge_heads(weights.to(v.dtype) @ v), x)

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        """Return the division: every device has whole heads; the gains of normalised queries and keys belong to all,
        and prevent it."""
        if self.query_norm is not None:
            return None
        return TensorParallelPlan(
            ("query", "key", "value"), ("output",), num_units=self.num_kv_heads, unit_name="heads of keys and values"
        )

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        shape = (batch_size, self.num_kv_heads, max_length, self.head_width)
        keys, values = (torch.zeros(shape, device=device, dtype=dtype) for _ in range(2))
        return KeyValueState(0, keys, values, self._fused())

    def _fused(self) -> DecodingMap | None:
        """Return the three projections as one for inference in narrow layers, where calls cost more than products;
        weights in training have no copy."""
        if not torch.is_inference_mode_enabled() or self.d_model > _NARROW:
            return None
        parts = (self.query, self.key, self.value)
        biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
        weights: list[Tensor] = [part.weight for part in parts]
        return DecodingMap(torch.cat(weights), torch.cat(biases) if biases else None)

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        assert isinstance(state, KeyValueState)
        q, k, v = self.project(x, context, state.fused)
        bias = self.full_bias(q, context)
        y = self.read_next(q, *state.append(k, v), bias)
        return self.project_output(merge_heads(y), x), state

    def read_next(
        self,
        q: Float[Tensor, "B H L E"],
        k: Float[Tensor, "B G M E"],
        v: Float[Tensor, "B G M K"],
        bias: Float[Tensor, "#B #H #L M"] | None,
    ) -> Float[Tensor, "B P L W"]:
        """Return what the last L of M tokens read."""
        length, num_keys = q.shape[2], k.shape[2]
        is_prompt = length == num_keys and length > 1
        if bias is None and length > 1 and not is_prompt:
            bias = as_bias(causal_mask(length, num_keys, q.device), q.dtype)
        return self.read(q, k, v, bias=bias, causal=is_prompt, dropout=0.0)

    def costs(self, query: CostContext) -> Costs:
        n, d = query.length, self.d_model
        inner, kv = (heads * self.head_width for heads in (self.num_heads, self.num_kv_heads))
        scores = 2 * n * (n + 1) * inner if self.causal else 4 * n * n * inner
        return Costs.of(
            self,
            forward_flops=2 * n * d * (2 * inner + 2 * kv) + scores,
            state_elements=2 * n * kv,
            activation_bytes=self.saved_bytes(query),
        )

    def kernel_extras(self, query: CostContext) -> tuple[int, int]:
        """Return how many keys and channels of a head the kernel reads besides those of the tokens; none by default."""
        del query
        return 0, 0

    def saved_bytes(self, query: CostContext) -> int:
        """Count the tokens; queries, keys, values and outputs as the kernel takes and gives them, with one number for
        each query or with all weights; a copy of the merged heads where they are not a view; and what norms save."""
        n, heads, groups = query.length, self.num_heads, self.num_kv_heads
        keys, channels = self.kernel_extras(query)
        inner, wide, has_bias = heads * self.value_width, heads * (self.head_width + channels), query.biased_heads > 0
        if query.explicit_attention or self.score_cap is not None:
            shared, of_four_bytes = wide, 0
            saved = n * (wide + inner) + heads * n * (n + keys)
        else:
            takes = takes_groups(query.device, query.bytes_per_element, has_bias=has_bias)
            shared = groups * (self.head_width + channels) if takes else wide
            queries = n + keys if self.causal and not has_bias else n
            saved, of_four_bytes = 2 * queries * wide, queries * heads
            saved += (n * inner if channels else 0) + (query.biased_heads * n * (n + keys) if keys else 0)
        saved += n * self.d_model + 2 * (n + keys) * shared
        normed, divisors = self.saved_by_norms(n)
        own = self.saved_by_cap(query, pairs=heads * n * n, scored=2 * n * wide, masked=n * query.biased_heads)
        return (saved + normed) * query.bytes_per_element + 4 * (of_four_bytes + divisors) + own

    def saved_by_cap(self, query: CostContext, *, pairs: int, scored: int, masked: int) -> int:
        """Return the bytes that capped scores of so many pairs save beyond explicit weights: hyperbolic tangents, a
        mask of so many queries that may attend nowhere, and in half precision the weights and the `scored` elements of
        queries and keys again, in float32."""
        if self.score_cap is None:
            return 0
        exact = max(4, query.bytes_per_element)
        copies = pairs * exact + scored * (exact - query.bytes_per_element)
        return pairs * exact + masked + (copies if query.bytes_per_element < exact else 0)

    def saved_by_norms(self, length: int) -> tuple[int, int]:
        """Return what the norms of queries and keys save of a row: elements of their inputs, and divisors of four
        bytes."""
        if self.query_norm is None:
            return 0, 0
        heads = self.num_heads + self.num_kv_heads
        return length * heads * self.head_width, length * (2 if isinstance(self.query_norm, AllHeadsRmsNorm) else heads)
