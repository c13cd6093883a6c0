"""Retention token by token: the yardstick for outputs, gradients, FLOPs."""

from __future__ import annotations

from headtohead.components.mixers import retention as fast
from headtohead.components.mixers.reference.decayed_sums import TokenByToken


class Retention(TokenByToken, fast.Retention):
    """The same parameters."""
