"""Intervals as they are shown: after Student, and not beyond what a metric can be. Nothing that is true lies there, so
that cutting them loses nothing of what they hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from headtohead.comparing.statistics.means import interval_of
from headtohead.tracking.directions import direction_of

Ends = tuple[float, float]
_SHARES = frozenset(
    (
        "accuracy", "acc", "match", "f1", "auc", "auroc", "bleu", "chrf", "rouge", "rouge1", "rouge2", "rougel",
        "rougelsum", "readable", "precision", "recall", "iou", "map", "top1", "top5", "mrr", "ndcg",
    )
)  # fmt: skip
"""From 0 to 1, as words of a metric's name."""
_CORRELATIONS = frozenset(("matthews", "mcc", "pearson", "spearman", "kendall"))
"""From -1 to 1."""


def mean_interval(values: Sequence[float], alpha: float, metric: str) -> Ends | None:
    """Of a mean over seeds; None below two seeds, and where they do not differ."""
    return _cut(interval_of(values, alpha), bounds_of(metric, values))


def difference_interval(
    found: Ends | None, metric: str, values: Iterable[float | None], *, times: float = 1.0
) -> Ends | None:
    """An interval of a difference of two means, whose values these are; None is a run that diverged. `times` is how
    many such differences it is a sum of."""
    least, most = bounds_of(metric, [value for value in values if value is not None])
    return _cut(found, (times * (least - most), times * (most - least)))


def bounds_of(metric: str, values: Sequence[float]) -> Ends:
    """Return the least and the most that the metric can be, whose values these are: infinite where its name tells none,
    or other programs counted otherwise, in percent."""
    words = set(re.split(r"[^a-z0-9]+", metric.lower()))
    if words & _CORRELATIONS:
        least, most = -1.0, 1.0
    elif words & _SHARES and direction_of(metric) == "max":
        least, most = 0.0, 1.0
    else:
        return -math.inf, math.inf
    return (least, most) if all(least <= value <= most for value in values) else (-math.inf, math.inf)


def _cut(found: Ends | None, ends: Ends) -> Ends | None:
    return None if found is None else (max(found[0], ends[0]), min(found[1], ends[1]))
