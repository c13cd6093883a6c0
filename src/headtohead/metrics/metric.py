"""A metric declares which direction is better, its range of values, and what it is counted over; a table, such as a
confusion matrix, stands among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Direction = Literal["min", "max"]
_ROWS = ("rows", "questions", "texts")
"""Units of which a row is one."""


@dataclass(frozen=True)
class Metric:
    """A metric that tasks compute; each stands in a file of this package, and records store it."""

    name: str
    """The name in results; metrics at several cutoffs append the cutoff, recall@10."""
    direction: Direction | None
    """The better direction; None for a setting among the results, of which neither more nor less is better."""
    best: float | None
    over: str
    """The unit that it is a mean over, or is counted from: targets, tokens, bytes, rows ..."""
    low: float = 0.0
    high: float = 1.0
    """No value is outside."""
    chance: float | None = None
    """The value of a model that knows nothing of inputs and of how often targets occur; None: it depends on the data,
    and the task computes it."""
    any_tokenizer: bool = False
    """Whether runs that read the same texts with different tokenizers may be compared by it."""
    title: str = field(default="", compare=False, metadata={"stored": False})
    """The name in tables; empty: the name in words."""
    headline: int | None = field(default=None, compare=False, metadata={"stored": False})
    """Its rank among those that are shown instead of the loss that a run was selected by."""

    units: Mapping[str, str] = field(default_factory=dict, compare=False, metadata={"stored": False})
    """The unit of its values by the task that computes it; empty for shares, and where the name says it."""

    @property
    def label(self) -> str:
        """Return how tables write it."""
        return self.title or self.name.replace("_", " ")

    def of_one_row(self, rows: int) -> float | None:
        """Return what one of so many rows can change; None where the value is not a share of rows."""
        is_share = self.over in _ROWS and self.low == 0.0 and self.high == self.best == 1.0
        return 1 / rows if is_share and rows > 0 else None

    def is_better(self, value: float, other: float) -> bool:
        """Return whether the value is better than the other."""
        return value < other if self.direction == "min" else value > other


Cell = str | int | float


@dataclass(frozen=True)
class MetricTable:
    """Columns by name and rows of cells; the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_matrix: bool = False
    """Whether the cells after the first are counts of one kind, which a picture shows better than numbers do."""
