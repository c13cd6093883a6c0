"""Linear attention with elu(x) + 1 for features (Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236)."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.mixers.kernel_attention import KernelAttention
from headtohead.components.mixers.softmax_attention import equal_share


class LinearAttention(KernelAttention):
    """f(x) = elu(x) + 1, of queries and keys alike."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        bias: bool = True,
        chunk_size: int = 64,
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

    def kept_of_features(self, length: int) -> int:
        return 2 * length * self.d_model
