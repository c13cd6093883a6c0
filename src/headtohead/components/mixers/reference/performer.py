"""Attention by random features token by token: the yardstick for outputs, gradients, FLOPs."""

from __future__ import annotations

from headtohead.components.mixers import performer as fast
from headtohead.components.mixers.reference.kernel_attention import TokenByToken


class Performer(TokenByToken, fast.Performer):
    """The same parameters and directions."""
