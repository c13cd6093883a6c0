"""Mamba-2 token by token: the yardstick for outputs, gradients, FLOPs."""

from __future__ import annotations

from headtohead.components.mixers import mamba2 as fast
from headtohead.components.mixers.reference.decayed_sums import TokenByToken


class Mamba2(TokenByToken, fast.Mamba2):
    """The same parameters."""
