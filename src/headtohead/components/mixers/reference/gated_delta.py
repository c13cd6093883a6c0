"""The delta rule token by token."""

from __future__ import annotations

from headtohead.components.mixers import gated_delta as fast
from headtohead.components.mixers.reference.matrix_memory import MatrixMemory


class GatedDelta(MatrixMemory, fast.GatedDelta):
    """The same parameters."""
