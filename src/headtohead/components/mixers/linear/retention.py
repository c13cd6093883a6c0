"""Retention: attention without softmax whose weights decay with distance, at a rate of its own in every head
(Sun et al. 2023, https://arxiv.org/abs/2307.08621).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.fast_kernels import FlaKernel
from headtohead.components.mixers.attention.softmax_attention import equal_share, merge_heads, split_heads
from headtohead.components.mixers.linear.decayed_attention import DecayedAttention
from headtohead.components.precision import at_least_float32
from headtohead.errors import UsageError
from headtohead.ranges import Positive, Width


class Retention(DecayedAttention):
    """(swish(x W_g) * norm(sum_s decay^(t-s) (q_t k_s) v_s)) W_o, with queries and keys rotated by their positions.

    The norm is by head and scale-invariant, so the paper's three divisions of the weights, which tame half precision,
    change nothing but the meaning of eps; sums are made in float32 here.
    """

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        value_factor: Width = 2,
        eps: Positive = 1e-6,
        chunk_size: Width = 64,
        kernel: FlaKernel = "auto",
    ) -> None:
        del causal, dropout  # it reads from left to right, and has no weights to drop
        width = equal_share(d_model, num_heads)
        if width % 2:
            raise UsageError(
                f"num_heads={num_heads} gives heads of width {width}, and retention turns numbers in pairs: choose "
                f"num_heads such that d_model={d_model} / num_heads is even"
            )
        super().__init__(d_model, num_heads, width, value_factor * width, chunk_size, kernel)
        self.eps = eps

    def project(self, x: Float[Tensor, "B L D"], context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys rotated by their positions, in float32 at least; and values."""
        q, k, v = self.query(x), self.key(x), self.value(x)
        positions = torch.arange(x.shape[1], device=x.device)[None] if context.positions is None else context.positions
        exact = at_least_float32(x.dtype)
        rates = 10000.0 ** -torch.linspace(0, 1, self.head_width // 2, device=x.device, dtype=exact)
        angles = (positions[..., None] * rates)[:, None]
        turn = angles.cos(), angles.sin()
        q, k = (_turned(split_heads(t, self.head_width).to(exact), *turn) for t in (q, k))
        return q, k * self.head_width**-0.5, split_heads(v, self.value_width)

    def log_decay(self, like: Tensor) -> Float[Tensor, "1 H 1"]:
        """Return the log decays, from 31/32 per token in the first head, halving the loss from head to head."""
        lost = torch.exp2(-5.0 - torch.arange(self.num_heads, device=like.device, dtype=like.dtype))
        return torch.log1p(-lost)[None, :, None]

    def gated(self, y: Float[Tensor, "B H L P"], x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        normed = y * (y.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        gate = F.silu(self.gate(x))
        output: Tensor = self.output(gate * merge_heads(normed).to(gate.dtype))
        return output

    def saved_elements(self, length: int, padded: int) -> tuple[int, int]:
        inner = self.num_heads * self.value_width
        exact = padded * inner + length * (self.head_width + self.num_heads)
        return length * (self.d_model + 4 * inner), exact


def _turned(
    x: Float[Tensor, "B H L K"], cosines: Float[Tensor, "#B 1 L R"], sines: Float[Tensor, "#B 1 L R"]
) -> Float[Tensor, "B H L K"]:
    """Rotate neighbouring channels as pairs."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cosines - odd * sines, odd * cosines + even * sines), dim=-1).flatten(-2)
