"""Strided attention one query at a time."""

from __future__ import annotations

from headtohead.components.mixers import strided as fast
from headtohead.components.mixers.reference.sparse_attention import OneByOne


class Strided(OneByOne, fast.Strided):
    """The same parameters; every query takes the keys of its window and of its stride."""
