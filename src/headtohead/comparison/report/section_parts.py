"""Define the parts of a section as plain data: a section says what is shown, and only the page how it looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headtohead.comparison.arm_colours import MUTED
from headtohead.comparison.contrasts import Kind, Verdict
from headtohead.comparison.tables.run_table import number


@dataclass(frozen=True)
class ReportText:
    """A paragraph."""

    text: str
    tone: Literal["plain", "note", "warning"] = "plain"


@dataclass(frozen=True)
class ArmName:
    """An arm, beside the line and marker that it has in every figure."""

    name: str


@dataclass(frozen=True)
class Badge:
    """A verdict in a word and a sign."""

    kind: Kind
    exploratory: bool = False
    why: str = ""
    """The reason why nothing was shown, where it is known."""


@dataclass(frozen=True)
class Code:
    """Letters of one width: a command, an override, a file; in a cell or as a paragraph."""

    text: str


@dataclass(frozen=True)
class Stacked:
    """A number or a name, and in smaller letters below it what belongs to it: its interval, its scale."""

    text: str
    below: str


Cell = str | ArmName | Badge | Code | Stacked


@dataclass(frozen=True)
class Column:
    """Numbers stand right."""

    label: str
    numeric: bool = False
    wide: bool = False
    """Holds sentences: takes more room, and breaks lines."""


@dataclass(frozen=True)
class ReportTable:
    """Rows of as many cells as there are columns; scrolls in its own box where it is too wide."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str | None = None


@dataclass(frozen=True)
class Control:
    """A row of buttons of which one is pressed."""

    label: str
    options: Sequence[str]


@dataclass(frozen=True)
class ReportFigure:
    """A figure of Plotly, as plain data or as go.Figure, in one form or in several to choose from.

    Layout is the page's (fonts, colours, legend, margins) where the figure does not say. A colour may be a token of
    the theme, as `styles_of` and `faint` give them, and then follows light and dark. A column that many forms share is
    given once in `columns` and named by traces: {"x": "@run3.tokens"}. Texts are shown as they are, never as markup.
    """

    forms: Mapping[tuple[str, ...], Any]
    """The forms by the options pressed, one for each control; a figure without controls has the form ()."""
    caption: str
    """The caption: what to see, and what the error bars are."""
    controls: Sequence[Control] = ()
    columns: Mapping[str, Sequence[object]] = field(default_factory=dict)
    hint: str = ""
    """The end of the caption that is of no use on paper: what a click does."""


@dataclass(frozen=True)
class Picture:
    """A small picture, drawn with sharp pixels."""

    png: bytes
    alt: str
    below: str = ""
    rows: Sequence[str] = ()
    """The names of its rows, drawn at its left; columns stand above it."""
    columns: Sequence[str] = ()
    scale: tuple[float, float, bool] | None = None
    """The values of its first and last shade, and whether the last stands for larger ones, too: from these the page
    makes a table of its numbers."""


@dataclass(frozen=True)
class PictureGrid:
    """Pictures in rows and columns under headings; a missing one is None, or the reason in words."""

    columns: Sequence[ArmName | str]
    rows: Sequence[tuple[Stacked, Sequence[Sequence[Picture] | str]]]
    """Heading and cells."""
    caption: str


@dataclass(frozen=True)
class VerdictList:
    """Verdicts with their sentences, and their intervals on one scale."""

    verdicts: Sequence[Verdict]
    judged_by: str = ""
    """The metric with its split and length, which each card names."""


@dataclass(frozen=True)
class CollapsedParts:
    """Shown when requested."""

    summary: str
    parts: Sequence[SectionPart]
    printed: bool = True


SectionPart = ReportText | Code | ReportTable | ReportFigure | PictureGrid | VerdictList | CollapsedParts


@dataclass(frozen=True)
class Section:
    """One topic of the report."""

    title: str
    anchor: str
    """The anchor of the address: letters, digits and dashes."""
    parts: Sequence[SectionPart]


def figure(form: Any, caption: str, columns: Mapping[str, Sequence[object]] | None = None) -> ReportFigure:
    """Return a report figure of a single form."""
    return ReportFigure({(): form}, caption, columns=columns or {})


NAME = "chance"
_MOST = 2.0
"""Times as high as without the line a figure may become by it."""
_Columns = Mapping[str, Sequence[Any]]


def with_chance(
    form: Mapping[str, Any],
    value: float | Mapping[float, float] | Mapping[str, float] | None,
    columns: _Columns | None = None,
) -> dict[str, Any]:
    """Return the form with a line at chance, which may differ along the figure, or as it is where nobody knows chance,
    or the line would leave the rest less than half of the figure; `columns` hold what traces name by @."""
    data = list(form["data"])
    across, heights = (list(_drawn(data, axis, columns or {})) for axis in ("x", "y"))
    if value is None or not across:
        return {**form, "data": data}
    points = value if isinstance(value, Mapping) else {min(across): value, max(across): value}
    if not points or not all(is_near(heights, height) for height in points.values()):
        return {**form, "data": data}
    line = {
        "type": "scatter",
        "name": NAME,
        "mode": "lines",
        "x": list(points),
        "y": list(points.values()),
        "line": {"color": MUTED, "dash": "dot", "width": 1},
        "hovertemplate": "chance: %{y:.4g}<extra></extra>",
        "legendrank": 3000,
    }
    return {**form, "data": [*data, line]}


def chance_words(form: Mapping[str, Any], value: float | None) -> str:
    """Return the sentence of a caption about chance; empty where nobody knows it."""
    if value is None:
        return ""
    if any(trace.get("name") == NAME for trace in form["data"]):
        return f" The dotted line is chance, {number(value)}: the score of a model that learned nothing."
    return f" Chance, {number(value)}, is off it."


def is_near(heights: Sequence[float], value: float) -> bool:
    """Return whether the line leaves at least half of the figure to what else is drawn."""
    low, high = min(heights), max(heights)
    return max(high, value) - min(low, value) <= _MOST * (high - low) or low <= value <= high


def _drawn(data: Sequence[Mapping[str, Any]], axis: str, columns: _Columns) -> Iterator[float]:
    for trace in data:
        values = trace.get(axis, ())
        known = columns.get(values[1:], ()) if isinstance(values, str) else values
        yield from (value for value in known if value is not None)
