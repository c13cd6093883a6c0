"""RWKV-7 token by token."""

from __future__ import annotations

from headtohead.components.mixers import rwkv7 as fast
from headtohead.components.mixers.reference.matrix_memory import MatrixMemory


class Rwkv7(MatrixMemory, fast.Rwkv7):
    """The same parameters."""
