"""Which metric chooses the best checkpoint, and which way is better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

LOWER_IS_BETTER = ("loss", "perplexity", "bits_per_byte")


def direction_of(monitor: str, metrics: Sequence[str]) -> Literal["min", "max"]:
    if monitor not in metrics:
        raise ValueError(f"task.monitor={monitor!r} is no metric of this task: choose one of {', '.join(metrics)}.")
    return "min" if monitor in LOWER_IS_BETTER else "max"
