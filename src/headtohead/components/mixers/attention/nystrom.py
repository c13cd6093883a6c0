"""Nyström attention: queries and keys meet at a few landmarks, the means of segments of the row (Xiong et al. 2021,
https://arxiv.org/abs/2102.03902).

Each landmark mixes tokens before and after it, so that it has no causal form, and no score belongs to a pair of tokens
that a position encoding could rotate or bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.attention_maps import scores_of, softmax_weights
from headtohead.components.component import Context, State, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.attention.fused_attention import attend
from headtohead.components.mixers.attention.softmax_attention import (
    AttentionHeads,
    SoftmaxAttention,
    merge_heads,
    split_heads,
)
from headtohead.components.mixers.attention.sparse_attention import apart
from headtohead.components.precision import without_autocast
from headtohead.components.sequence_ops.ragged_rows import one_row_per_document
from headtohead.components.sequence_ops.score_masks import as_bias
from headtohead.errors import UsageError
from headtohead.ranges import OddWidth, Width

STEPS = 6
"""Steps of the iteration towards an inverse."""


@dataclass(frozen=True)
class Landmarks:
    """The segments of each row, as equal in length as they can be: as many as it has tokens, up to a limit."""

    means: Float[Tensor, "#B M L"]
    """The weights that take tokens to the means of their segments."""
    there: Bool[Tensor, "B 1 1 M"] | None
    """The mask of landmarks that a row has; None means all."""
    real: Bool[Tensor, "B 1 1 L"] | None
    """The mask of real tokens; None means all."""

    def bias(self, mask: Bool[Tensor, "B 1 1 N"] | None, like: Tensor) -> Float[Tensor, "B 1 1 N"] | None:
        """Return what leaves the others out of a softmax."""
        return None if mask is None else as_bias(mask, like.dtype)


class Nystrom(SoftmaxAttention):
    """softmax(q l_k^T) Z softmax(l_q k^T) v + conv(v), where l are landmarks and Z is nearly the pseudoinverse of
    softmax(l_q l_k^T) (Eq. 14); scores are divided by sqrt(K), and the convolution is that of Section 4.1, one for each
    head."""

    follows_order = True
    no_mup_rule = "no rule is published for landmarks and the convolution beside them"
    can_be_causal = False
    reads_scores = False
    reads_rotation = False
    without_pairs = "compares its tokens with means of segments, which stand at no position"
    sums_to_one = False

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        landmarks: Width = 64,
        conv: Literal[0] | OddWidth = 33,
        bias: bool = True,
        output_bias: bool | None = None,
    ) -> None:
        if causal:
            raise UsageError(
                "mixer=nystrom mixes all tokens into landmarks before it looks at any, and cannot be causal: "
                "use another mixer, or model=encoder_only"
            )
        if conv and conv % 2 == 0:
            raise UsageError(f"conv={conv} taps are not odd: choose an odd number, or 0 for no convolution")
        heads = AttentionHeads(bias=bias, output_bias=output_bias)
        super().__init__(d_model, num_heads=num_heads, causal=False, dropout=dropout, heads=heads)
        self.landmarks, self.taps, around = landmarks, conv, (conv // 2, 0)
        self.conv = None
        if conv:
            self.conv = nn.Conv2d(num_heads, num_heads, (conv, 1), padding=around, groups=num_heads, bias=False)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        x, context, back = apart(x, context)
        marks = self.landmarks_of(x, context)
        q, k, v = self.query(x), self.key(x), self.value(x)
        q_mark, k_mark = (split_heads(marks.means.to(t.dtype) @ t, self.head_width) for t in (q, k))
        q, k, v = (split_heads(t, self.head_width) for t in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        of_marks = attend(q_mark, k, v, bias=marks.bias(marks.real, q), causal=False, scale=self.scale, dropout=0.0)
        z = inverse(self.between(q_mark, k_mark, marks))
        with without_autocast(x):
            values = (z @ of_marks.to(z.dtype)).to(v.dtype)
        y = attend(q, k_mark, values, bias=marks.bias(marks.there, q), causal=False, scale=self.scale, dropout=dropout)
        if marks.real is not None:
            v = v.masked_fill(~marks.real.mT, 0.0)
        return back(self.project_output(merge_heads(y if self.conv is None else y + self.conv(v)), x))

    def landmarks_of(self, x: Float[Tensor, "B L D"], context: Context) -> Landmarks:
        """Return the segments of rows whose real tokens are on the left."""
        length, number = x.shape[1], min(self.landmarks, x.shape[1])
        index, mark = (torch.arange(size, device=x.device) for size in (length, number))
        if context.valid is None:
            there = real = None
            segment = index[None] * number // length
        else:
            real, num_real = context.valid[:, None, None], context.valid.sum(1, keepdim=True).clamp(min=1)
            own = num_real.clamp(max=number)
            there = (mark < own)[:, None, None]
            segment = (index * own // num_real).masked_fill(~context.valid, -1)
        members = (segment[:, None] == mark[:, None]).to(x.dtype)
        return Landmarks(members / members.sum(-1, keepdim=True).clamp(min=1), there, real)

    def between(
        self, q: Float[Tensor, "B H M K"], k: Float[Tensor, "B H M K"], marks: Landmarks
    ) -> Float[Tensor, "B H M M"]:
        """Return the weights of landmarks among each other, in float32 at least; those that a row lacks have
        themselves alone, and no part in the inverse of the others."""
        weights = scores_of(q, k, bias=marks.bias(marks.there, q), scale=self.scale, cap=None).softmax(-1)
        if marks.there is None:
            return weights
        return torch.where(marks.there.mT, weights, torch.eye(q.shape[2], device=q.device, dtype=weights.dtype))

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return every token's effective weight, the convolution's included, which is not a share and may be
        negative."""
        packed = one_row_per_document(x, context)
        rows, context, _ = apart(x, replace(context, rotation=None))
        q, k, _ = self.project(rows, replace(context, rotation=None))
        marks = self.landmarks_of(rows, context)
        means = marks.means[:, None].to(q.dtype)
        q_mark, k_mark = means @ q, means @ k
        first = softmax_weights(q, k_mark, bias=marks.bias(marks.there, q), scale=self.scale)
        last = softmax_weights(q_mark, k, bias=marks.bias(marks.real, q), scale=self.scale)
        weights = first @ inverse(self.between(q_mark, k_mark, marks)) @ last + self.band(rows.shape[1], marks)
        if packed is not None:
            row, index = packed.row[:, :, None], packed.index
            pairs = weights[row, :, index[:, :, None], index[:, None]] * (row == row.mT)[..., None]
            weights = pairs.permute(0, 3, 1, 2)
        return weights.tril() if causal else weights

    def band(self, length: int, marks: Landmarks) -> Float[Tensor, "#B H L L"]:
        """Return the convolution as weights of keys."""
        index, half = torch.arange(length, device=self.query.weight.device), self.taps // 2
        gap = index - index[:, None]
        if self.conv is None:
            return torch.zeros_like(gap, dtype=self.query.weight.dtype).expand(1, self.num_heads, -1, -1)
        taps = self.conv.weight[:, 0, :, 0][None, :, (gap + half).clamp(0, self.taps - 1)]
        taps = taps.masked_fill(gap.abs() > half, 0.0)
        return taps if marks.real is None else taps * marks.real

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        return None

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        del batch_size, max_length, device, dtype
        raise UsageError("mixer=nystrom reads whole sequences and cannot decode step by step: use another mixer")

    def costs(self, query: CostContext) -> Costs:
        """Return the costs: tokens meet landmarks twice, and each step of the inverse is four products of them; in
        float32, their weights and five matrices of a step are saved, and the last; heads to which a convolution is
        added are merged in a copy."""
        n, d, heads = query.length, self.d_model, self.num_heads
        marks = min(self.landmarks, n)
        copies = 5 if self.conv is None else 6
        products = 4 * n * d + 4 * n * marks + 2 * marks * marks + n * self.taps
        return Costs.of(
            self,
            forward_flops=2 * d * products + 8 * STEPS * marks**3 * heads,
            activation_bytes=(copies * n * d + 4 * marks * d + n * marks) * query.bytes_per_element
            + 4 * (heads * (n + marks) + (5 * STEPS + 2) * heads * marks**2 + heads * marks + 1),
        )


def inverse(a: Float[Tensor, "B H M M"]) -> Float[Tensor, "B H M M"]:
    """Return nearly the Moore-Penrose inverse of weights, by an iteration of third order (Eq. 11) from a^T over the
    largest sum of a column in any head."""
    eye = torch.eye(a.shape[-1], device=a.device, dtype=a.dtype)
    with without_autocast(a):
        z = a.mT / a.sum(-2).amax((1, 2))[:, None, None, None]
        for _ in range(STEPS):
            az = a @ z
            z = 0.25 * (z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az))))
    return z
