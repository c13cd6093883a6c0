"""Attention whose weights are positive products of features, f(q) f(k)^T / sum over keys: linear in the length, since
sum f(k)^T v can be made first (Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap, ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.softmax_attention import equal_share, merge_heads, split_heads
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.chunked_decay import check_chunk_size, decayed_sums, padded_length
from headtohead.components.sequence_ops.ragged_rows import find_document_starts, one_row_per_document
from headtohead.components.sequence_ops.score_masks import allowed_pairs


@dataclass(frozen=True)
class Features:
    """f(q) and f(k), and the features that weigh the values instead where a position encoding rotates features: then
    the totals stay as they are, since rotated features may cancel (Su et al. 2021, https://arxiv.org/abs/2104.09864,
    equation 19)."""

    q: Float[Tensor, "B H L F"]
    k: Float[Tensor, "B H L F"]
    turned: tuple[Float[Tensor, "B H L F"], Float[Tensor, "B H L F"]] | None = None

    @property
    def weighing(self) -> tuple[Float[Tensor, "B H L F"], Float[Tensor, "B H L F"]]:
        """Return the features whose products weigh values."""
        return (self.q, self.k) if self.turned is None else self.turned

    def of_real_keys(self, valid: Bool[Tensor, "B L"]) -> Features:
        """Return the same features with zero keys at padding."""
        real = valid[:, None, :, None]
        turned = None if self.turned is None else (self.turned[0], self.turned[1] * real)
        return Features(self.q, self.k * real, turned)

    @property
    def parts(self) -> list[Tensor]:
        return [self.q, self.k, *(self.turned or ())]

    @classmethod
    def of_parts(cls, parts: Sequence[Tensor]) -> Features:
        q, k, *turned = parts
        return cls(q, k, (turned[0], turned[1]) if turned else None)


@dataclass
class SumState(State):
    """The sum over the tokens read so far of f(k)^T v, and of f(k) in its last column."""

    sums: Float[Tensor, "B H K P"] | None = None


class KernelAttention(Mixer, HasAttentionMaps):
    """f(q_t) sum_s f(k_s)^T v_s / f(q_t) sum_s f(k_s)^T, over the tokens before and at t, or over all."""

    follows_order = False
    reads_rotation = True
    without_pairs = "sums keys and values before it reads them, so that no pair of tokens has a score"

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float,
        num_features: int,
        bias: bool,
        chunk_size: int,
        key_width: int | None = None,  # of a head's queries and keys; None: as of its values
    ) -> None:
        super().__init__()
        del dropout  # there are no weights to drop
        check_chunk_size(chunk_size)
        self.d_model, self.num_heads, self.causal, self.chunk_size = d_model, num_heads, causal, chunk_size
        self.head_width, self.num_features = equal_share(d_model, num_heads), num_features
        self.key_width = self.head_width if key_width is None else key_width
        self.query = ScoreLinear(d_model, num_heads * self.key_width, bias=bias)
        self.key = ScoreLinear(d_model, num_heads * self.key_width, bias=bias)
        self.value = LinearMap(d_model, d_model, bias=bias)
        self.output = ResidualLinear(d_model, d_model, bias=bias)

    @abstractmethod
    def query_features(self, q: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L F"]:
        """Return the query features, of which no product with those of a key is below 0; a factor common to all
        features of a token changes nothing."""

    @abstractmethod
    def key_features(self, k: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L F"]:
        """Return the key features."""

    def features(self, q: Float[Tensor, "B H L K"], k: Float[Tensor, "B H L K"], context: Context) -> Features:
        """Return the features of queries and keys, transformed by the position encoding."""
        del context
        return Features(self.query_features(q), self.key_features(k))

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        features, v = self.project(x, context)
        y = self.means_before(features, v, context) if self.causal else self.means_of_all(features, v, context)
        output: Tensor = self.output(merge_heads(y.to(v.dtype)))
        return output

    def project(self, x: Float[Tensor, "B L D"], context: Context) -> tuple[Features, Tensor]:
        """Return the features of queries and keys, zero at padded keys, in float32 at least; and the values."""
        exact = at_least_float32(x.dtype)
        q, k = (split_heads(part(x), self.key_width) for part in (self.query, self.key))
        v = split_heads(self.value(x), self.head_width)
        with without_autocast(x):
            features = self.features(q.to(exact), k.to(exact), context)
        if context.valid is not None:
            features = features.of_real_keys(context.valid)
        return features, v

    def means_before(self, features: Features, v: Tensor, context: Context) -> Float[Tensor, "B H L K"]:
        sums, _ = self._sums_before(features, v, None, context)
        return _means(sums)

    def _sums_before(
        self, features: Features, v: Tensor, state: Float[Tensor, "B H F P"] | None, context: Context
    ) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H F P"]]:
        """Return every query's weighted sum of values and its total weight, and the sums after the last token."""
        summed = partial(decayed_sums, starts=find_document_starts(context), chunk_size=self.chunk_size)
        if features.turned is None:
            return summed(features.q, features.k, _with_ones(v), state=state)
        before = (None, None) if state is None else state.split((self.head_width, 1), dim=-1)
        values, value_sums = summed(*features.turned, v, state=before[0])
        totals, total_sums = summed(features.q, features.k, torch.ones_like(v[..., :1]), state=before[1])
        return torch.cat((values, totals), dim=-1), torch.cat((value_sums, total_sums), dim=-1)

    def means_of_all(self, features: Features, v: Tensor, context: Context) -> Float[Tensor, "B H L K"]:
        parts = [*features.parts, v.to(features.q.dtype)]
        rows = one_row_per_document(merge_heads(torch.cat(parts, dim=-1)), context)
        if rows is not None:
            widths = [part.shape[-1] for part in parts]
            *own, v = split_heads(rows.x, sum(widths)).split(widths, dim=-1)
            features = Features.of_parts(own)
        with without_autocast(v):
            y = self._means_of_all(features, v.to(features.q.dtype))
        return y if rows is None else split_heads(rows.back(merge_heads(y)), self.head_width)

    def _means_of_all(self, features: Features, v: Tensor) -> Float[Tensor, "B H L K"]:
        if features.turned is None:
            return _means(features.q @ (features.k.mT @ _with_ones(v)))
        q, k = features.turned
        totals = (features.q * features.k.sum(2, keepdim=True)).sum(-1, keepdim=True)
        return _means(torch.cat((q @ (k.mT @ v), totals), dim=-1))

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        features, _ = self.project(x, context)
        causal = self.causal if causal is None else causal
        allowed = allowed_pairs(context, x.shape[1], causal=causal, explicit=True, device=x.device)
        assert allowed is not None, "an explicit mask was requested"
        with without_autocast(features.q):
            q, k = features.weighing
            weights = (q @ k.mT) * allowed
            shares = weights if features.turned is None else (features.q @ features.k.mT) * allowed
        total = shares.sum(-1, keepdim=True)
        return weights / (total + (total == 0))

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        _, v = self.project(x, context)
        y: Tensor = self.output(merge_heads(weights.to(v.dtype) @ v))
        return y

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> SumState:
        del max_length
        shape = (batch_size, self.num_heads, self.num_features, self.head_width + 1)
        return SumState(0, torch.zeros(shape, device=device, dtype=at_least_float32(dtype)))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], SumState]:
        assert isinstance(state, SumState) and state.sums is not None, "a state comes from initial_state"
        features, v = self.project(x, context)
        sums, state.sums = self._sums_before(features, v, state.sums, context)
        state.length += x.shape[1]
        return self.output(merge_heads(_means(sums).to(v.dtype))), state

    def costs(self, query: CostContext) -> Costs:
        """Return the costs as a recurrence: one product makes the sums, one reads them."""
        n, d = query.length, self.d_model
        features = self.feature_flops(n)
        costs = Costs.of(
            self,
            forward_flops=4 * n * d * (d + self.num_heads * self.key_width + self.num_features) + features,
            state_elements=self.num_heads * self.num_features * (self.head_width + 1),
            activation_bytes=self.saved_bytes(query),
        )
        return replace(costs, training_flops=costs.training_flops - features)

    def feature_flops(self, length: int) -> int:
        """Return the FLOPs of products with untrained weights in the features of queries and keys."""
        del length
        return 0

    def saved_bytes(self, query: CostContext) -> int:
        """Count the projections' inputs and outputs in the model's dtype; in float32 what features are made of,
        features, values and sums with the columns of ones, totals, and the sums before every chunk or at the end."""
        n, d, heads = query.length, self.d_model, self.num_heads
        rows, chunks = padded_length(n, self.chunk_size) if self.causal else (n, 1)
        sums = heads * self.num_features * (self.head_width + 1)
        exact = rows * 2 * (heads * self.num_features + d + heads) + n * heads + chunks * sums
        return 2 * n * d * query.bytes_per_element + 4 * (exact + self.saved_by_features(n))

    @abstractmethod
    def saved_by_features(self, length: int) -> int:
        """Count the elements that autograd saves for the features of queries and keys, besides these themselves."""


def _with_ones(v: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L P"]:
    """Return the values with a column of ones whose sums are the total weights."""
    return F.pad(v, (0, 1), value=1.0)


def _means(sums: Float[Tensor, "B H L P"]) -> Float[Tensor, "B H L K"]:
    """Return the weighted means; zero where there was nothing to attend to."""
    total = sums[..., -1:]
    return sums[..., :-1] / (total + (total == 0))
