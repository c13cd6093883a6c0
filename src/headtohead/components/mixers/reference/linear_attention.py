"""Linear attention token by token: the yardstick for outputs, gradients, FLOPs."""

from __future__ import annotations

from headtohead.components.mixers import linear_attention as fast
from headtohead.components.mixers.reference.kernel_attention import TokenByToken


class LinearAttention(TokenByToken, fast.LinearAttention):
    """The same parameters and features."""
