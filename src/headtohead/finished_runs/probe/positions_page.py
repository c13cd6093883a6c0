"""Positional encodings as the content of a page, as figures in a file, and as lines for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from headtohead.files.atomic_write import replace_figure
from headtohead.finished_runs.finished_run import facts_of
from headtohead.finished_runs.probe.attention_page import half_floats
from headtohead.finished_runs.probe.data_figures import figure
from headtohead.finished_runs.probe.position_encodings import Curves, Panel, PositionEncoding
from headtohead.records.run_folder import slug

_MOST_PANELS = 8
"""Maps in one figure; the page has all."""


def positions_content(
    encodings: Sequence[PositionEncoding], config: Mapping[str, object], *, name: str | None = None
) -> dict[str, Any]:
    """Return what positions.js draws."""
    return {
        "title": f"Positional encodings of {name}" if name else "Positional encodings of a model",
        "facts": facts_of(config, name),
        "notes": [] if name else ["Without a run, learned encodings are shown as initialised."],
        "encodings": [
            {
                "name": f"{encoding.name}: {encoding.encoding}, {encoding.acts}",
                "figures": encoding.figures,
                "panels": [_panel(panel) for panel in encoding.panels],
                "curves": [_curves(curves) for curves in encoding.curves],
            }
            for encoding in encodings
        ],
    }


def positions_data(encodings: Sequence[PositionEncoding]) -> list[dict[str, Any]]:
    """Return, for --json, what each encoding does, and its curves."""
    return [
        {
            "name": encoding.name,
            "encoding": encoding.encoding,
            "acts": encoding.acts,
            "figures": encoding.figures,
            "curves": [
                {
                    "title": curves.title,
                    "first": curves.first,
                    "values": dict(zip(curves.names, curves.values.tolist(), strict=True)),
                }
                for curves in encoding.curves
            ],
        }
        for encoding in encodings
    ]


def show_positions(encodings: Sequence[PositionEncoding]) -> Table:
    table = Table(header_style="bold")
    for name in ("where", "encoding", "what it does", "in figures"):
        table.add_column(name)
    for encoding in encodings:
        table.add_row(encoding.name, encoding.encoding, encoding.acts, encoding.figures)
    return table


def save_figure(encoding: PositionEncoding, folder: Path) -> Path:
    """Return its maps side by side, and its curves."""
    panels = encoding.panels[:_MOST_PANELS]
    columns = min(4, len(panels) + 1)
    lines = -(-(len(panels) + 1) // columns)
    drawn = figure(4.4 * columns, 3.8 * lines)
    axes = drawn.subplots(lines, columns, squeeze=False).flatten().tolist()
    for own in axes:
        own.set_axis_off()
    for own, panel in zip(axes, panels, strict=False):
        _draw_map(drawn, own, panel)
    for own, curves in zip(axes[len(panels) :], encoding.curves, strict=False):
        _draw_curves(own, curves)
    drawn.suptitle(f"{encoding.name}: {encoding.encoding}, {encoding.acts}", fontsize=11)
    path = folder / f"{slug(f'{encoding.name} {encoding.encoding}')}.png"
    replace_figure(path, drawn, dpi=110)
    return path


def scale_of(panel: Panel) -> tuple[float, float]:
    """Return the range from the palest to the strongest colour: around 0, or away from it if all numbers have one
    sign."""
    smallest, largest = float(panel.values.min()), float(panel.values.max())
    bound = max(-smallest, largest) or 1.0
    return (
        (0.0, largest)
        if smallest >= 0 and largest > 0
        else (0.0, smallest)
        if largest <= 0 > smallest
        else (-bound, bound)
    )


def _draw_map(drawn: Any, axes: Any, panel: Panel) -> None:
    values = panel.values.numpy()
    if panel.causal:
        values = np.where(np.tri(*values.shape) > 0, values, np.nan)
    low, high = scale_of(panel)
    rows, columns = values.shape
    edges = (
        panel.first_column - 0.5,
        panel.first_column + columns - 0.5,
        panel.first_row + rows - 0.5,
        panel.first_row - 0.5,
    )
    colours = "RdBu_r" if low < 0 < high else "Purples" if high > 0 else "Purples_r"
    image = axes.imshow(
        values,
        cmap=colours,
        vmin=min(low, high),
        vmax=max(low, high),
        aspect="auto",
        extent=edges,
        interpolation="nearest",
    )
    drawn.colorbar(image, ax=axes, shrink=0.8)
    axes.set_axis_on()
    axes.set_title(panel.title, fontsize=8, wrap=True)
    axes.set_xlabel(panel.columns, fontsize=8)
    axes.set_ylabel(panel.rows, fontsize=8)
    axes.tick_params(labelsize=7)


def _draw_curves(axes: Any, curves: Curves) -> None:
    positions = curves.first + np.arange(curves.values.shape[1])
    for name, line in zip(curves.names, curves.values, strict=True):
        axes.plot(positions, line.numpy(), label=name, linewidth=1.2)
    if 1 < len(curves.names) <= 12:
        axes.legend(fontsize=7)
    axes.set_axis_on()
    axes.set_title(curves.title, fontsize=8)
    axes.set_xlabel(curves.axis, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _panel(panel: Panel) -> dict[str, Any]:
    rows, columns = panel.values.shape
    low, high = scale_of(panel)
    return {
        "title": panel.title,
        "rows": rows,
        "columns": columns,
        "row_name": panel.rows,
        "column_name": panel.columns,
        "first_row": panel.first_row,
        "first_column": panel.first_column,
        "causal": panel.causal,
        "low": low,
        "high": high,
        "colours": "diverging" if low < 0 < high else "sequential",
        "values": half_floats(panel.values.numpy()),
    }


def _curves(curves: Curves) -> dict[str, Any]:
    return {
        "title": curves.title,
        "axis": curves.axis,
        "first": curves.first,
        "names": list(curves.names),
        "values": curves.values.tolist(),
    }
