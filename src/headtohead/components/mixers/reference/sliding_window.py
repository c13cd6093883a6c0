"""Sliding-window attention one query at a time."""

from __future__ import annotations

from headtohead.components.mixers import sliding_window as fast
from headtohead.components.mixers.reference.sparse_attention import OneByOne


class SlidingWindow(OneByOne, fast.SlidingWindow):
    """The same parameters; every query takes the keys within its window."""
