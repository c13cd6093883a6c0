"""Linear attention with elu(x) + 1 for features (Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236)."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.contracts import Context, CostQuery
from headtohead.components.mixers.chunked_decay import padded_length
from headtohead.components.mixers.kernel_attention import Features, KernelAttention
from headtohead.components.mixers.softmax_attention import equal_share
from headtohead.ranges import Width


class LinearAttention(KernelAttention):
    """f(x) = elu(x) + 1, of queries and keys alike. A rotary position turns features, not what they are made of: so
    their products depend on distances alone (Su et al. 2021, https://arxiv.org/abs/2104.09864, section 3.3)."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        bias: bool = True,
        chunk_size: Width = 64,
    ) -> None:
        super().__init__(
            d_model,
            num_heads=num_heads,
            causal=causal,
            dropout=dropout,
            num_features=equal_share(d_model, num_heads),
            bias=bias,
            chunk_size=chunk_size,
        )

    def query_features(self, q: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L K"]:
        return F.elu(q) + 1.0

    def key_features(self, k: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L K"]:
        return F.elu(k) + 1.0

    def features(self, q: Float[Tensor, "B H L K"], k: Float[Tensor, "B H L K"], context: Context) -> Features:
        plain = super().features(q, k, context)
        if context.encoding is None or context.rotation is None:
            return plain
        rotate, rotation = context.encoding.rotate, context.rotation
        return Features(plain.q, plain.k, (rotate(plain.q, rotation), rotate(plain.k, rotation)))

    def gives_shares(self, context: Context) -> bool:
        """Products of rotated features may be below 0."""
        return context.rotation is None

    def kept_bytes(self, query: CostQuery) -> int:
        """Rotated features besides: the causal form puts values and totals together without padding, the other one
        keeps no copy of values with ones, and of plain keys their sum alone."""
        kept, n, d, heads = super().kept_bytes(query), query.length, self.d_model, self.num_heads
        if query.encoding is None or not query.encoding.rotates:
            return kept
        if not self.causal:
            return kept + 4 * n * (d - heads)
        rows, _ = padded_length(n, self.chunk_size)
        return kept + 4 * (2 * rows * d - (rows - n) * (d + heads))

    def kept_of_features(self, length: int) -> int:
        return 2 * length * self.d_model
