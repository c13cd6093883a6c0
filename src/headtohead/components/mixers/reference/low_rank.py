"""Low-rank attention one query at a time."""

from __future__ import annotations

from headtohead.components.mixers import low_rank as fast
from headtohead.components.mixers.reference.softmax_attention import SoftmaxAttention


class LowRank(SoftmaxAttention, fast.LowRank):
    """The same parameters; the thin projections need no slower form than their own."""
