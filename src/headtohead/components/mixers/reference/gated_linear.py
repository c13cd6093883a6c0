"""Gated linear attention token by token."""

from __future__ import annotations

from headtohead.components.mixers import gated_linear as fast
from headtohead.components.mixers.reference.matrix_memory import MatrixMemory


class GatedLinearAttention(MatrixMemory, fast.GatedLinearAttention):
    """The same parameters."""
