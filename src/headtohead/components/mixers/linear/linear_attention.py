"""Linear attention with elu(x) + 1 for features (Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.mixers.attention.softmax_attention import equal_share
from headtohead.components.mixers.linear.kernel_attention import Features, KernelAttention
from headtohead.components.sequence_ops.chunked_decay import padded_length
from headtohead.components.sequence_ops.rotation import rotated_by_position
from headtohead.components.training_hooks import ChangesWithSteps
from headtohead.errors import UsageError
from headtohead.ranges import Every, Width


class LinearAttention(KernelAttention):
    """f(x) = elu(x) + 1, of queries and keys alike. A rotary position rotates features, not their inputs: so their
    products depend on distances alone (Su et al. 2021, https://arxiv.org/abs/2104.09864, section 3.3)."""

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
        return Features(plain.q, plain.k, rotated_by_position(plain.q, plain.k, context))

    def gives_shares(self, context: Context) -> bool:
        """Return whether the weights are shares: products of rotated features may be negative."""
        return context.rotation is None

    def saved_bytes(self, query: CostContext) -> int:
        """Add the bytes of rotated features: the causal form puts values and totals together without padding, the other
        one saves no copy of values with ones, and of plain keys their sum alone."""
        saved, n, d, heads = super().saved_bytes(query), query.length, self.d_model, self.num_heads
        if query.encoding is None or not query.encoding.rotates:
            return saved
        if not self.causal:
            return saved + 4 * n * (d - heads)
        rows, _ = padded_length(n, self.chunk_size)
        return saved + 4 * (2 * rows * d - (rows - n) * (d + heads))

    def saved_by_features(self, length: int) -> int:
        return 2 * length * self.d_model


# Attention by random features whose products are exp(q k / sqrt(K)) on average: FAVOR+ (Choromanski et al. 2021,
# https://arxiv.org/abs/2009.14794).


LARGEST_EXPONENT = 60.0
"""Sums of what is above it may leave float32, and so may their gradients where all is below its negative."""


class Performer(KernelAttention, ChangesWithSteps):
    """f(x) = exp(w x - |x|^2 / 2) for orthogonal directions w, with x = q or k, divided by the fourth root of K.

    The directions are the same for all heads. They are drawn once, or again after `redraw_every` optimizer steps. A
    rotary position turns queries and keys, so that their features estimate the scores of rotated ones.
    """

    directions: Tensor

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        bias: bool = True,
        num_features: Width | None = None,
        redraw_every: Every | None = None,
        chunk_size: Width = 64,
    ) -> None:
        width = equal_share(d_model, num_heads)
        if num_features is None:  # as many as the paper's bound asks for
            num_features = max(1, round(width * math.log(width)))
        if num_features < 1:
            raise UsageError(f"num_features={num_features} is not a number of features: use null, or 1 or more")
        if redraw_every is not None and redraw_every < 1:
            raise UsageError(f"redraw_every={redraw_every} is not a number of steps: use null for never, or 1 or more")
        super().__init__(
            d_model,
            num_heads=num_heads,
            causal=causal,
            dropout=dropout,
            num_features=num_features,
            bias=bias,
            chunk_size=chunk_size,
        )
        self.redraw_every = redraw_every
        self.register_buffer("directions", torch.empty(num_features, width))
        self.redraw()

    @torch.no_grad()
    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draw new directions, as long as Gaussian ones and orthogonal as far as the width allows."""
        num_features, width = self.directions.shape
        like = torch.empty(0, device=self.directions.device if generator is None else generator.device)
        num_blocks = -(-num_features // width)
        orthogonal, _ = torch.linalg.qr(like.new_empty(num_blocks, width, width).normal_(generator=generator))
        lengths = like.new_empty(num_features, width).normal_(generator=generator).norm(dim=1, keepdim=True)
        # A new tensor: the old one may be kept for a backward pass to come.
        self.directions = (orthogonal.mT.flatten(0, 1)[:num_features] * lengths).to(self.directions)

    def begin_step(self, step: int, generator: torch.Generator) -> None:
        if self.redraw_every is not None and step and step % self.redraw_every == 0:
            self.redraw(generator)

    def features(self, q: Float[Tensor, "B H L K"], k: Float[Tensor, "B H L K"], context: Context) -> Features:
        return super().features(*rotated_by_position(q, k, context), context)

    def query_features(self, q: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L F"]:
        """Return the features without the factor common to all of them, so that the largest is 1."""
        exponents = self._along(q)
        return exponents.sub_(exponents.detach().amax(-1, keepdim=True)).exp_()

    def key_features(self, k: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L F"]:
        """Return the features; exponents are near 0 unless a key has a large norm."""
        lengths = k.square().sum(-1, keepdim=True) * (0.5 * self.head_width**-0.5)
        return F.hardtanh(self._along(k).sub_(lengths), -LARGEST_EXPONENT, LARGEST_EXPONENT).exp_()

    def _along(self, x: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L F"]:
        y: Tensor = x @ (self.directions.to(x.dtype) * self.head_width**-0.25).mT
        return y

    def feature_flops(self, length: int) -> int:
        return 4 * length * self.d_model * self.num_features

    def saved_by_features(self, length: int) -> int:
        """Count the keys for their squares, exponents, the directions twice, and features of which chunks that need
        padding have a copy."""
        features = self.num_heads * self.num_features
        copies = 3 if self.causal and padded_length(length, self.chunk_size)[0] > length else 1
        return length * (self.d_model + copies * features) + 2 * self.directions.numel()


# Attention by features whose products are the exponential's Taylor series to the second power (Arora et al. 2024,
# https://arxiv.org/abs/2402.18668).


class Based(KernelAttention):
    """f(q) f(k)^T = 1 + s + s^2 / 2 with s = q k / sqrt(K), which is 1/2 or more, for queries and keys of few channels.

    A product of two channels is one feature, where the paper's q (x) q has it twice: the same sums from nearly half the
    features. A rotary position turns queries and keys, so that s is the score of rotated ones and weights stay shares.
    """

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        key_width: Width = 16,
        bias: bool = False,
        rotated: bool = True,  # whether a rotary position turns queries and keys
        chunk_size: Width = 64,
    ) -> None:
        if key_width < 1:
            raise UsageError(f"key_width={key_width} leaves nothing of queries and keys: use 16, or another above 0")
        super().__init__(
            d_model,
            num_heads=num_heads,
            causal=causal,
            dropout=dropout,
            num_features=(key_width + 1) * (key_width + 2) // 2,
            bias=bias,
            chunk_size=chunk_size,
            key_width=key_width,
        )
        self.rotated = rotated

    def features(self, q: Float[Tensor, "B H L K"], k: Float[Tensor, "B H L K"], context: Context) -> Features:
        return super().features(*(rotated_by_position(q, k, context) if self.rotated else (q, k)), context)

    def query_features(self, q: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L F"]:
        """Return 1, x / K^(1/4), x_i^2 / sqrt(2 K), and x_i x_j / sqrt(K) for every i < j."""
        x = q * self.key_width**-0.25
        pairs = (x[..., :-i] * x[..., i:] for i in range(1, self.key_width))
        return torch.cat((torch.ones_like(x[..., :1]), x, x.square() * 0.5**0.5, *pairs), dim=-1)

    def key_features(self, k: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L F"]:
        return self.query_features(k)

    def saved_by_features(self, length: int) -> int:
        return 2 * length * self.num_heads * self.key_width
