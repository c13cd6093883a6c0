"""What a metric is: which way is better, what values it can have, and what it is counted over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Direction = Literal["min", "max"]


@dataclass(frozen=True)
class Metric:
    """One quality that tasks measure; each has a file of its own in this package, and records keep it."""

    name: str
    """As results have it; what is measured at several cutoffs has them behind it, recall@10."""
    direction: Direction | None
    """None: a setting that stands among the results, of which neither more nor less is better."""
    best: float | None
    over: str
    """What it is a mean over, or is counted from: targets, tokens, bytes, rows ..."""
    low: float = 0.0
    high: float = 1.0
    """No value is outside."""
    chance: float | None = None
    """What a model gets that knows nothing of inputs and of how often targets occur; None: the data decides, and the
    task says it."""
    any_tokenizer: bool = False
    """Whether runs that read the same texts with different tokenizers may be compared by it."""
    title: str = field(default="", compare=False, metadata={"stored": False})
    """How tables write it; empty: the name in words."""
    headline: int | None = field(default=None, compare=False, metadata={"stored": False})
    """Its rank among those that are shown instead of the loss that a run was selected by."""

    @property
    def label(self) -> str:
        """Return how tables write it."""
        return self.title or self.name.replace("_", " ")

    def is_better(self, value: float, other: float) -> bool:
        """Whether the value is better than the other."""
        return value < other if self.direction == "min" else value > other
