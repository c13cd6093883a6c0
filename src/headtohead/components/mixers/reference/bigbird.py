"""BigBird one query at a time."""

from __future__ import annotations

from headtohead.components.mixers import bigbird as fast
from headtohead.components.mixers.reference.sparse_attention import OneByOne


class BigBird(OneByOne, fast.BigBird):
    """The same parameters and pattern; every query takes the keys of its blocks."""

    forward = OneByOne.forward
