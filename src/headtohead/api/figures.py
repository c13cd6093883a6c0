"""The report's figures by themselves: a section's figure with its columns filled in and the colours of the light
theme."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report.plotly_figures import plain_figure
from headtohead.comparison.report.section_parts import CollapsedParts, ReportFigure, SectionPart
from headtohead.comparison.report.sections import SECTIONS
from headtohead.config.errors import unknown
from headtohead.errors import UsageError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_TOKEN = re.compile(r"(--[\w-]+)(?:/([\d.]+))?")


def figure_of(results: ComparisonResults, section: str, options: Sequence[str]) -> Figure:
    """Return the figure of a section of the report as Plotly's own; `options` choose among its forms, in any order."""
    from plotly.graph_objects import Figure

    shown = report_figures(results)
    if section not in shown:
        raise UsageError(unknown(f"{section} is no figure of this report", section, list(shown)))
    plain = plain_figure(shown[section])
    forms: list[dict[str, Any]] = plain["forms"]
    known = list(dict.fromkeys(option for form in forms for option in form["options"]))
    for option in options:
        if option not in known:
            raise UsageError(unknown(f"{option} is no form of {section}", option, known))
    form = next(form for form in forms if set(options) <= set(form["options"]))
    filled = _resolved({"data": form["data"], "layout": form["layout"]}, plain["columns"])
    layout = {"template": "plotly_white", "margin": {"t": 30, "r": 20}, **filled["layout"]}
    return Figure(data=filled["data"], layout=layout)


def report_figures(results: ComparisonResults) -> dict[str, ReportFigure]:
    """Return the first figure of each section that has one, by the section's anchor."""
    shown = {}
    for make in SECTIONS:
        section = make(results)
        figure = None if section is None else _first_figure(section.parts)
        if section is not None and figure is not None:
            shown[section.anchor] = figure
    return shown


def _first_figure(parts: Sequence[SectionPart]) -> ReportFigure | None:
    for part in parts:
        if isinstance(part, ReportFigure):
            return part
        inner = _first_figure(part.parts) if isinstance(part, CollapsedParts) else None
        if inner is not None:
            return inner
    return None


def _resolved(value: object, columns: Mapping[str, Sequence[Any]]) -> Any:
    if isinstance(value, Mapping):
        return {name: _resolved(item, columns) for name, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item, columns) for item in value]
    if not isinstance(value, str):
        return value
    if value.startswith("@") and value[1:] in columns:
        return list(columns[value[1:]])
    token = _TOKEN.fullmatch(value)
    return value if token is None else _colour(token[1], float(token[2] or 1))


def _colour(name: str, opacity: float) -> str:
    red, green, blue = (int(_light_theme()[name][start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


@cache
def _light_theme() -> dict[str, str]:
    """Return the colours of the style sheet's first block, which is the light theme."""
    sheet = (files("headtohead.comparison") / "theme.css").read_text(encoding="utf-8")
    colours: dict[str, str] = {}
    for name, colour in re.findall(r"(--[\w-]+):\s*(#[0-9a-f]{6})\b", sheet):
        colours.setdefault(name, colour)
    return colours
