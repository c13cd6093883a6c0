"""Whether a metric is better when it is smaller, as far as its name tells."""

from __future__ import annotations

import re
from typing import Literal

Direction = Literal["min", "max"]
_SMALLER = frozenset(
    (
        "loss", "nll", "perplexity", "ppl", "bits", "bpb", "bpc", "error", "err", "errors", "mse", "rmse", "mae", "wer",
        "cer", "ter", "fid", "regret", "latency",
    )
)  # fmt: skip
_LARGER = frozenset(
    (
        "accuracy", "acc", "match", "f1", "auc", "auroc", "bleu", "chrf", "rouge", "rouge1", "rouge2", "rougel",
        "rougelsum", "readable", "precision", "recall", "reward",
        "return", "returns", "score", "iou", "map", "psnr", "ssim", "r2", "top1", "top5", "mfu", "mrr", "ndcg",
    )
)  # fmt: skip


def direction_of(metric: str) -> Direction | None:
    """None where the name does not tell, or tells both."""
    words = set(re.split(r"[^a-z0-9]+", metric.lower()))
    smaller, larger = bool(words & _SMALLER), bool(words & _LARGER)
    if smaller == larger:
        return None
    return "min" if smaller else "max"
