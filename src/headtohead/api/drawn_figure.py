"""Figures that matplotlib draws: a notebook shows them without pyplot, and so does a page that it is exported to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Literal, TypedDict

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

_INCH = 96
_WIDTH = 7.2
_LARGE = 1e4
"""Numbers from which on an axis says 50 k and 257 G."""
_DASHES: Mapping[str, str | tuple[int, tuple[float, ...]]] = {
    "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3)), "longdashdot": (0, (8, 2, 1.5, 2)),
}  # fmt: skip
_MARKERS = {
    "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v", "cross": "P", "pentagon": "p",
    "star": "*", "line-ns": "|", "line-ns-open": "|", "x": "x",
}  # fmt: skip
"""Matplotlib's names of Plotly's dashes and symbols."""
AxisName = Literal["x", "y"]


class Line(TypedDict, total=False):
    """Plotly's line."""

    color: str
    width: float
    dash: str
    shape: str


class Marker(TypedDict, total=False):
    """Plotly's marker; what differs from point to point is a list."""

    color: str | list[str]
    size: float | list[float]
    symbol: str | list[str]
    line: Line


class ErrorBars(TypedDict, total=False):
    """Plotly's error bars."""

    array: list[float | None]
    arrayminus: list[float | None]


class Trace(TypedDict, total=False):
    """Plotly's trace, as far as reports use it."""

    type: str
    mode: str
    name: str
    x: list[float | str | None]
    y: list[float | str | None]
    z: list[float]
    text: list[str]
    zmin: float
    zmax: float
    line: Line
    marker: Marker
    error_x: ErrorBars
    error_y: ErrorBars
    fill: str
    fillcolor: str
    orientation: str
    showlegend: bool
    xaxis: str
    yaxis: str


class Title(TypedDict, total=False):
    """Plotly's title of an axis."""

    text: str


class AxisLook(TypedDict, total=False):
    """Plotly's axis, as far as reports use it."""

    title: Title
    type: str
    tickvals: list[float]
    ticktext: list[str]
    range: list[float]
    rangemode: str
    autorange: str
    zeroline: bool
    zerolinecolor: str
    showgrid: bool
    categoryarray: list[str]


class Shape(TypedDict, total=False):
    """A band or a line across a figure."""

    type: str
    x0: float
    x1: float
    y0: float
    y1: float
    yref: str
    name: str
    showlegend: bool
    fillcolor: str
    line: Line


class Layout(TypedDict, total=False):
    """Plotly's layout, as far as reports use it."""

    height: float
    showlegend: bool
    shapes: list[Shape]
    xaxis: AxisLook
    yaxis: AxisLook
    xaxis2: AxisLook
    yaxis2: AxisLook


class DrawnFigure(Figure):
    """A figure that shows itself in a notebook."""

    def _repr_svg_(self) -> str:
        text, canvas = StringIO(), self.canvas
        with rc_context({"svg.fonttype": "none"}):
            FigureCanvasSVG(self).print_svg(text)
        self.set_canvas(canvas)
        return text.getvalue()


def drawn(data: Sequence[Trace], layout: Layout) -> DrawnFigure:
    """Return a figure of the report, given as Plotly's traces and layout, drawn by matplotlib: the same numbers in the
    same colours, without a script."""
    known = {
        "x": layout.get("xaxis", {}), "y": layout.get("yaxis", {}),
        "x2": layout.get("xaxis2", {}), "y2": layout.get("yaxis2", {}),
    }  # fmt: skip
    panels = list(dict.fromkeys((trace.get("xaxis", "x"), trace.get("yaxis", "y")) for trace in data))
    figure = DrawnFigure(figsize=(_WIDTH, layout.get("height", 400) / _INCH), layout="constrained")
    grid = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, (across, up) in zip(grid, panels, strict=True):
        own = [trace for trace in data if (trace.get("xaxis", "x"), trace.get("yaxis", "y")) == (across, up)]
        _draw_panel(axes, own, known[across], known[up])
        for shape in layout.get("shapes", ()):
            _draw_shape(axes, shape)
    handles, labels = grid[0].get_legend_handles_labels()
    if handles and layout.get("showlegend", True):
        figure.legend(handles, labels, loc="outside upper left", ncols=4, frameon=False, fontsize=9)
    return figure


def _draw_panel(axes: Axes, traces: Sequence[Trace], x_axis: AxisLook, y_axis: AxisLook) -> None:
    columns, rows = _categories(traces, "x", x_axis), _categories(traces, "y", y_axis)
    for trace in traces:
        x, y = _coordinates(trace.get("x", ()), columns), _coordinates(trace.get("y", ()), rows)
        if trace["type"] == "heatmap":
            _draw_cells(axes, trace, x, y)
        elif trace["type"] == "bar":
            colour, edge = _colour(trace["marker"].get("color")), _colour(trace["marker"].get("line", {}).get("color"))
            if trace.get("orientation") == "h":
                axes.barh(y, x, 0.65, color=colour, edgecolor=edge)
            else:
                axes.bar(x, y, 0.65, color=colour, edgecolor=edge)
        else:
            _draw_line(axes, trace, x, y)
    _set_axis(axes, "x", x_axis, columns)
    _set_axis(axes, "y", y_axis, rows)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="x" if y_axis.get("showgrid") is False else "both", color="#eceef1")
    axes.set_axisbelow(True)


def _draw_cells(axes: Axes, trace: Trace, x: Sequence[float], y: Sequence[float]) -> None:
    """Draw a shade and a number for each cell that is known."""
    shades = [[math.nan] * (int(max(x)) + 1) for _ in range(int(max(y)) + 1)]
    for column, row, value, text in zip(x, y, trace["z"], trace["text"], strict=True):
        shades[int(row)][int(column)] = value
        axes.text(column, row, text, ha="center", va="center", fontsize=9)
    axes.imshow(shades, aspect="auto", cmap="Blues", vmin=trace["zmin"], vmax=2 * trace["zmax"])  # pale below ink


def _draw_line(axes: Axes, trace: Trace, x: Sequence[float], y: Sequence[float]) -> None:
    if trace.get("fill") == "toself":
        axes.fill(x, y, color=_colour(trace["fillcolor"]), linewidth=0)
        return
    line, marker, mode = trace.get("line", {}), trace.get("marker", {}), trace.get("mode", "lines")
    has_line, has_markers = "lines" in mode, "markers" in mode
    axes.errorbar(
        x,
        y,
        xerr=_errors(trace.get("error_x", {})),
        yerr=_errors(trace.get("error_y", {})),
        capsize=3,
        color=_colour(line.get("color") if has_line else marker.get("color")),
        linestyle=_DASHES.get(line.get("dash", "solid"), "-") if has_line else "none",
        linewidth=line.get("width", 2) * 0.75,
        drawstyle="steps-post" if line.get("shape") == "hv" else "default",
        marker=_MARKERS.get(_first(marker.get("symbol")) or "circle", "o") if has_markers else None,
        markersize=_size(marker) * 0.75,
        label=trace.get("name") if trace.get("showlegend", True) else None,
    )


def _errors(bars: ErrorBars) -> list[list[float]] | None:
    """Return how far bars reach below and above the points; None without bars."""
    if "array" not in bars:
        return None
    return [_coordinates(bars.get("arrayminus", bars["array"]), {}), _coordinates(bars["array"], {})]


def _draw_shape(axes: Axes, shape: Shape) -> None:
    """Draw a band across one axis, or a line."""
    spans_up = shape.get("yref") == "paper"
    start, end = (shape["x0"], shape["x1"]) if spans_up else (shape["y0"], shape["y1"])
    if shape["type"] == "rect":
        label = shape.get("name") if shape.get("showlegend") else None
        span = axes.axvspan if spans_up else axes.axhspan
        span(start, end, color=_colour(shape["fillcolor"]), linewidth=0, label=label, zorder=0)
    else:
        (axes.axvline if spans_up else axes.axhline)(start, color=_colour(shape["line"].get("color")), linewidth=1)


def _set_axis(axes: Axes, name: AxisName, look: AxisLook, known: Mapping[str, int]) -> None:
    axis = axes.xaxis if name == "x" else axes.yaxis
    axis.set_label_text(look.get("title", {}).get("text", "").replace("<br>", "\n"))
    if look.get("type") == "log":
        (axes.set_xscale if name == "x" else axes.set_yscale)("log")
    if look.get("zeroline"):
        (axes.axvline if name == "x" else axes.axhline)(0, color=_colour(look["zerolinecolor"]), linewidth=1)
    limit = axes.set_xlim if name == "x" else axes.set_ylim
    if "range" in look:
        low, high = (10.0**end if look.get("type") == "log" else end for end in look["range"])
        limit(low, high)
    elif look.get("rangemode") == "tozero":
        limit(0, None)
    if max(map(abs, axis.get_view_interval())) >= _LARGE:
        axis.set_major_formatter(EngFormatter(sep=" "))
    if "tickvals" in look:
        axis.set_ticks(look["tickvals"], look["ticktext"], minor=False)
        axis.set_ticks([], minor=True)
    elif known:
        axis.set_ticks(list(known.values()), list(known))
    if look.get("autorange") == "reversed":
        axis.set_inverted(True)


def _categories(traces: Sequence[Trace], name: AxisName, look: AxisLook) -> dict[str, int]:
    """Return the position of each text on an axis; none where it has numbers."""
    texts = [value for trace in traces for value in trace.get(name, ()) if isinstance(value, str)]
    return {text: index for index, text in enumerate(dict.fromkeys([*look.get("categoryarray", ()), *texts]))}


def _coordinates(values: Iterable[float | str | None], known: Mapping[str, int]) -> list[float]:
    """Return where points stand; a gap is not a number."""
    return [math.nan if value is None else known[value] if isinstance(value, str) else value for value in values]


def _size(marker: Marker) -> float:
    size = marker.get("size", 6)
    return size if isinstance(size, int | float) else max(size, default=6)


def _first(value: str | Sequence[str] | None) -> str | None:
    """Return a text, or the first of several: here all points of a trace look alike."""
    return value if value is None or isinstance(value, str) else next(iter(value), None)


def _colour(text: str | Sequence[str] | None) -> tuple[float, ...] | None:
    """Return a colour of the theme, "rgba(1,2,3,0.5)", as shares of one."""
    numbers = [float(number) for number in re.findall(r"[\d.]+", _first(text) or "")]
    return (*(part / 255 for part in numbers[:3]), *numbers[3:]) if len(numbers) in (3, 4) else None
