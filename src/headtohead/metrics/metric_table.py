"""A table among the metrics, such as a confusion matrix or samples of generated text."""

from __future__ import annotations

from dataclasses import dataclass

Cell = str | int | float


@dataclass(frozen=True)
class MetricTable:
    """Columns by name and rows of cells; the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_matrix: bool = False
    """Whether the cells after the first are counts of one kind, which a picture shows better than numbers do."""
