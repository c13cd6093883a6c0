"""Figures that matplotlib draws: a notebook shows them without pyplot, and so does a page that it is exported to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

_INCH = 96
_WIDTH = 7.2
_LARGE = 1e4
"""Numbers from which on an axis says 50 k and 257 G."""
_DASHES: Mapping[str, Any] = {
    "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3)), "longdashdot": (0, (8, 2, 1.5, 2)),
}  # fmt: skip
_MARKERS = {
    "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v", "cross": "P", "pentagon": "p",
    "star": "*", "line-ns": "|", "line-ns-open": "|", "x": "x",
}  # fmt: skip
"""Matplotlib's names of Plotly's dashes and symbols."""


class DrawnFigure(Figure):
    """A figure that shows itself in a notebook."""

    def _repr_svg_(self) -> str:
        text = StringIO()
        with rc_context({"svg.fonttype": "none"}):
            self.savefig(text, format="svg")
        return text.getvalue()


def drawn(data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> DrawnFigure:
    """Return a figure of the report, given as Plotly's traces and layout, drawn by matplotlib: the same numbers in the
    same colours, without a script."""
    panels = list(dict.fromkeys((trace.get("xaxis", "x"), trace.get("yaxis", "y")) for trace in data))
    figure = DrawnFigure(figsize=(_WIDTH, layout.get("height", 400) / _INCH), layout="constrained")
    grid = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, (across, up) in zip(grid, panels, strict=True):
        own = [trace for trace in data if (trace.get("xaxis", "x"), trace.get("yaxis", "y")) == (across, up)]
        x_axis, y_axis = (layout.get(name[0] + "axis" + name[1:], {}) for name in (across, up))
        _draw_panel(axes, own, x_axis, y_axis)
        for shape in layout.get("shapes", ()):
            _draw_shape(axes, shape)
    handles, labels = grid[0].get_legend_handles_labels()
    if handles and layout.get("showlegend", True):
        figure.legend(handles, labels, loc="outside upper left", ncols=4, frameon=False, fontsize=9)
    return figure


def _draw_panel(
    axes: Axes, traces: Sequence[Mapping[str, Any]], x_axis: Mapping[str, Any], y_axis: Mapping[str, Any]
) -> None:
    categories = [_categories(traces, "x", x_axis), _categories(traces, "y", y_axis)]
    for trace in traces:
        x, y = (
            [known.get(value, value) for value in _values(trace, name)]
            for name, known in zip("xy", categories, strict=True)
        )
        if trace["type"] == "heatmap":
            _draw_cells(axes, trace, x, y)
        elif trace["type"] == "bar":
            bar = axes.barh if trace.get("orientation") == "h" else axes.bar
            colour, edge = _colour(trace["marker"]["color"]), _colour(trace["marker"].get("line", {}).get("color"))
            bar(*((y, x) if trace.get("orientation") == "h" else (x, y)), 0.65, color=colour, edgecolor=edge)
        else:
            _draw_line(axes, trace, x, y)
    for name, settings, known in zip("xy", (x_axis, y_axis), categories, strict=True):
        _set_axis(axes, name, settings, known)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="x" if y_axis.get("showgrid") is False else "both", color="#eceef1")
    axes.set_axisbelow(True)


def _draw_cells(axes: Axes, trace: Mapping[str, Any], x: Sequence[int], y: Sequence[int]) -> None:
    """Draw a shade and a number for each cell that is known."""
    shades = [[float("nan")] * (max(x) + 1) for _ in range(max(y) + 1)]
    for column, row, value, text in zip(x, y, trace["z"], trace["text"], strict=True):
        shades[row][column] = value
        axes.text(column, row, text, ha="center", va="center", fontsize=9)
    axes.imshow(shades, aspect="auto", cmap="Blues", vmin=trace["zmin"], vmax=2 * trace["zmax"])  # pale below ink


def _draw_line(axes: Axes, trace: Mapping[str, Any], x: Sequence[Any], y: Sequence[Any]) -> None:
    line, marker, mode = trace.get("line", {}), trace.get("marker", {}), trace.get("mode", "lines")
    if trace.get("fill") == "toself":
        axes.fill(x, y, color=_colour(trace["fillcolor"]), linewidth=0)
        return
    has_line, has_markers = "lines" in mode, "markers" in mode
    colour = _colour(line.get("color") if has_line else marker.get("color"))
    shown = trace.get("showlegend", True) and trace.get("name")
    look: dict[str, Any] = {
        "color": colour,
        "linestyle": _DASHES.get(line.get("dash", "solid"), "-") if has_line else "none",
        "linewidth": line.get("width", 2) * 0.75,
        "drawstyle": "steps-post" if line.get("shape") == "hv" else "default",
        "marker": _MARKERS.get(_first(marker.get("symbol")) or "circle", "o") if has_markers else None,
        "markersize": _size(marker) * 0.75,
        "label": trace["name"] if shown else None,
    }
    axes.errorbar(x, y, xerr=_errors(trace, "x"), yerr=_errors(trace, "y"), capsize=3, **look)


def _errors(trace: Mapping[str, Any], name: str) -> list[list[Any]] | None:
    """Return how far bars reach below and above the points; None without bars."""
    error = trace.get(f"error_{name}", {})
    if "array" not in error:
        return None
    return [_numbers(error.get("arrayminus", error["array"])), _numbers(error["array"])]


def _draw_shape(axes: Axes, shape: Mapping[str, Any]) -> None:
    """Draw a band across one axis, or a line."""
    spans_up = shape.get("yref") == "paper"
    start, end = (shape["x0"], shape["x1"]) if spans_up else (shape["y0"], shape["y1"])
    if shape["type"] == "rect":
        label = shape.get("name") if shape.get("showlegend") else None
        span = axes.axvspan if spans_up else axes.axhspan
        span(start, end, color=_colour(shape["fillcolor"]), linewidth=0, label=label, zorder=0)
    else:
        (axes.axvline if spans_up else axes.axhline)(start, color=_colour(shape["line"].get("color")), linewidth=1)


def _set_axis(axes: Axes, name: str, settings: Mapping[str, Any], known: Mapping[str, int]) -> None:
    axis = axes.xaxis if name == "x" else axes.yaxis
    axis.set_label_text(settings.get("title", {}).get("text", "").replace("<br>", "\n"))
    if settings.get("type") == "log":
        (axes.set_xscale if name == "x" else axes.set_yscale)("log")
    if "tickvals" in settings:
        axis.set_ticks(settings["tickvals"], settings["ticktext"], minor=False)
        axis.set_ticks([], minor=True)
    elif known:
        axis.set_ticks(list(known.values()), list(known))
    if settings.get("zeroline"):
        (axes.axvline if name == "x" else axes.axhline)(0, color=_colour(settings["zerolinecolor"]), linewidth=1)
    limit = axes.set_xlim if name == "x" else axes.set_ylim
    if "range" in settings:
        ends = settings["range"]
        limit(*(10.0**end if settings.get("type") == "log" else end for end in ends))
    elif settings.get("rangemode") == "tozero":
        limit(0, None)
    if max(map(abs, axis.get_view_interval())) >= _LARGE:
        axis.set_major_formatter(EngFormatter(sep=" "))
    if settings.get("autorange") == "reversed":
        axis.set_inverted(True)


def _categories(traces: Sequence[Mapping[str, Any]], name: str, settings: Mapping[str, Any]) -> dict[str, int]:
    """Return the position of each text on an axis; none where it has numbers."""
    texts = [value for trace in traces for value in _values(trace, name) if isinstance(value, str)]
    return {text: index for index, text in enumerate(dict.fromkeys([*settings.get("categoryarray", ()), *texts]))}


def _values(trace: Mapping[str, Any], name: str) -> list[Any]:
    """Return the coordinates of a trace."""
    return _numbers(trace.get(name, ()))


def _numbers(values: Iterable[Any]) -> list[Any]:
    """Return values in which a gap is no number."""
    return [float("nan") if value is None else value for value in values]


def _size(marker: Mapping[str, Any]) -> float:
    size = marker.get("size", 6)
    return float(size if isinstance(size, int | float) else max(size, default=6))


def _first(value: str | Sequence[str] | None) -> str | None:
    """Return a text, or the first of several: here all points of a trace look alike."""
    return value if value is None or isinstance(value, str) else next(iter(value), None)


def _colour(text: str | Sequence[str] | None) -> tuple[float, ...] | None:
    """Return a colour of the theme, "rgba(1,2,3,0.5)", as shares of one."""
    numbers = [float(number) for number in re.findall(r"[\d.]+", _first(text) or "")]
    return (*(part / 255 for part in numbers[:3]), *numbers[3:]) if len(numbers) in (3, 4) else None
