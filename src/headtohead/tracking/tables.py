"""Tables as files and pictures: comma-separated values for reading on, a coloured matrix for looking at."""

from __future__ import annotations

import csv
import io
import warnings
from pathlib import Path

import numpy as np

from headtohead.files.writing import replace_text
from headtohead.tasks.tables import Cell, Table

_DOTS_PER_INCH = 110
_MOST_NUMBERED, _MOST_NAMED = 20, 60
"""Classes up to which a matrix shows its counts, and the names of its rows and columns."""


def write_csv(table: Table, path: Path) -> None:
    """Numbers in full."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    replace_text(path, text.getvalue())


def table_of(samples: list[dict[str, str]]) -> Table:
    """One row per sample; all of them have the same names."""
    columns = tuple(samples[0]) if samples else ()
    rows: list[tuple[Cell, ...]] = [tuple(sample[name] for name in columns) for sample in samples]
    return Table(columns, tuple(rows))


def draw_matrix(table: Table) -> np.ndarray:
    """Colours [H, W, 3]: every row by its shares, so that a rare class shows as clearly as a common one; the counts
    stand in the cells."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    assert table.is_matrix, "only a matrix can be drawn"
    counts = np.array([row[1:] for row in table.rows], dtype=np.float64)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    size = len(counts)
    side = float(np.clip(2.2 + 0.42 * size, 3.6, 14.0))
    figure = Figure(figsize=(side + 0.9, side), dpi=_DOTS_PER_INCH, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    figure.colorbar(image, ax=axes, label="share of the true class", fraction=0.045)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if size <= _MOST_NAMED:
        longest = max(len(name) for name in table.columns[1:])
        axes.set_xticks(range(size), table.columns[1:], rotation=90 if longest > 3 else 0, parse_math=False)
        axes.set_yticks(range(size), [str(row[0]) for row in table.rows], parse_math=False)
    if size <= _MOST_NUMBERED:
        for (true, predicted), count in np.ndenumerate(counts):
            colour = "white" if shares[true, predicted] > 0.5 else "black"
            axes.text(predicted, true, f"{count:g}", ha="center", va="center", color=colour, fontsize=8)
    with warnings.catch_warnings():
        # A class may be named in letters that the font lacks; it shows them as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
