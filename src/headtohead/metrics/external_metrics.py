"""The name of another program's metric lets us guess its meaning; whoever uses the guess reports it as one."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from headtohead.metrics.metric import Metric

_SHARES = frozenset(
    (
        "accuracy", "acc", "match", "f1", "auc", "auroc", "bleu", "chrf", "rouge", "rouge1", "rouge2", "rougel",
        "rougelsum", "readable", "precision", "recall", "iou", "map", "top1", "top5", "mrr", "ndcg",
    )
)  # fmt: skip
_CORRELATIONS = frozenset(("matthews", "mcc", "pearson", "spearman", "kendall"))
_OTHERS_UP = frozenset(("reward", "return", "returns", "score", "psnr", "ssim", "r2", "mfu"))
_LOSSES = frozenset(
    (
        "loss", "nll", "perplexity", "ppl", "bits", "bpb", "bpc", "error", "err", "errors", "mse", "rmse", "mae", "wer",
        "cer", "ter", "fid", "regret", "latency",
    )
)  # fmt: skip
USUAL_RESULTS = (
    "loss", "val_loss", "test_loss", "accuracy", "acc", "perplexity", "score", "value", "metric", "result",
)  # fmt: skip
"""The usual names of the column of results in other programs, the most likely first."""


def guessed(name: str) -> Metric | None:
    """Return the metric that a name such as eval/top1_acc means; None where its words match no metric, or more than
    one."""
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    is_up = bool(words & (_SHARES | _CORRELATIONS | _OTHERS_UP))
    if is_up == bool(words & _LOSSES):
        return None
    if not is_up:
        return Metric(name, "min", None, "an unknown", low=-math.inf, high=math.inf)
    low, high = _bounds(words)
    return Metric(name, "max", high if math.isfinite(high) else None, "an unknown", low, high)


def _bounds(words: Collection[str]) -> tuple[float, float]:
    if not _CORRELATIONS.isdisjoint(words):
        return -1.0, 1.0
    return (-math.inf, math.inf) if _SHARES.isdisjoint(words) else (0.0, 1.0)
