"""Lightning attention as MiniMax-01 has it (MiniMax 2025, https://arxiv.org/abs/2501.08313; Qin et al. 2024,
https://arxiv.org/abs/2401.04658): linear attention that decays, with a gate and one norm over all heads."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.fast_kernels import FlaKernel
from headtohead.components.mixers.attention.softmax_attention import equal_share, merge_heads, split_heads
from headtohead.components.mixers.linear.decayed_attention import DecayedAttention
from headtohead.components.norms import RmsScale
from headtohead.components.precision import at_least_float32
from headtohead.ranges import Positive, Width


class LightningAttention(DecayedAttention):
    """(sigmoid(x W_g) * norm(sum_s decay^(t-s) (q_t k_s) v_s)) W_o, where q, k and v are swish(x W)."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        slope: Positive = 1.0,
        eps: Positive = 1e-6,
        chunk_size: Width = 64,
        kernel: FlaKernel = "auto",
    ) -> None:
        """`slope` is a factor of all heads' rates."""
        del causal, dropout  # it reads from left to right, and has no weights to drop
        width = equal_share(d_model, num_heads)
        super().__init__(d_model, num_heads, width, width, chunk_size, kernel)
        self.slope, self.norm = slope, RmsScale(d_model, eps=eps)

    def project(self, x: Float[Tensor, "B L D"], context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, in float32 at least; and values."""
        del context
        q, k, v = (split_heads(F.silu(part(x)), self.head_width) for part in (self.query, self.key, self.value))
        exact = at_least_float32(x.dtype)
        return q.to(exact), k.to(exact), v

    def log_decay(self, like: Tensor) -> Float[Tensor, "1 H 1"]:
        """Return the log decays per token: slope / 2^(8 h / H) of head h, down to slope / 256, as ALiBi's slopes."""
        heads = torch.arange(1, self.num_heads + 1, device=like.device, dtype=like.dtype)
        return -self.slope * torch.exp2(-8.0 * heads / self.num_heads)[None, :, None]

    def gated(self, y: Float[Tensor, "B H L P"], x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        gate = torch.sigmoid(self.gate(x))
        output: Tensor = self.output(gate * self.norm(merge_heads(y)).to(gate.dtype))
        return output

    def saved_elements(self, length: int, padded: int) -> tuple[int, int]:
        """Count tokens, what swish reads, the gate, what it meets and what comes of it; what the norm reads, and its
        root."""
        del padded
        return 7 * length * self.d_model, length * (self.d_model + 1)
