"""Loss and metric against tokens, FLOPs and time: every seed thin, the mean of each arm thick."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from headtohead.comparing.findings import Findings
from headtohead.comparing.report.chance import chance_words, with_chance
from headtohead.comparing.report.courses import AXES, Course, courses_of, mean_of, names_of, without_course
from headtohead.comparing.report.parts import Control, Figure, Section
from headtohead.comparing.report.theme import Style, faint, styles_of
from headtohead.comparing.report.words import metric_words

_SCALES = ("linear", "log")
_FEW = 12
"""Points of a mean that are marked, each by itself."""
_TITLES = {"tokens": "tokens", "FLOPs": "training FLOPs", "time": "seconds of training", "steps": "optimizer steps"}

_Line = tuple[int, dict[str, Any]]
"""A trace without its columns, and the number of their names."""


def section(findings: Findings) -> Section | None:
    found = courses_of(findings)
    names = _names(findings, found)
    axes = [axis for axis in AXES if any(any(course.along[axis]) for course in found)]
    if not names or not axes:
        return None
    means = [mean for name in names for arm in findings.arms if (mean := mean_of(found, arm.name, name))]
    courses = [course for course in (*found, *means) if course.name in names]
    lines = _lines(findings, courses)
    words = [metric_words(name) for name in names]
    columns: dict[str, Sequence[Any]] = {
        f"{number}.{axis}": course.along[axis] for number, course in enumerate(courses) for axis in axes
    }
    columns |= {f"{number}.values": course.values for number, course in enumerate(courses)}
    forms: dict[tuple[str, ...], Any] = {
        (metric_words(name), axis, scale): with_chance(
            _form(lines[name], name, axis, scale), findings.chance(name), columns
        )
        for name, axis, scale in product(names, axes, _SCALES)
    }
    of_chance = chance_words(next(iter(forms.values())), findings.chance(names[0]))
    controls = [Control("show", words), Control("against", axes), Control("scale", _SCALES)]
    return Section(
        "Learning curves", "curves", [Figure(forms, _caption(findings, found) + of_chance, controls, columns)]
    )


def _names(findings: Findings, found: Sequence[Course]) -> list[str]:
    known = {course.name for course in found}
    return [name for name in names_of(findings) if name in known]


def _lines(findings: Findings, courses: Sequence[Course]) -> dict[str, list[_Line]]:
    """By metric; in the legend an arm is named by its mean, or by its first run where it has none."""
    styles = styles_of(findings)
    named = {(course.arm, course.name) for course in courses if course.seed is None}
    lines: dict[str, list[_Line]] = {course.name: [] for course in courses}
    for number, course in enumerate(courses):
        shown = course.seed is None or (course.arm, course.name) not in named
        named.add((course.arm, course.name))
        place = {"showlegend": shown, "legendrank": list(styles).index(course.arm)}
        alone = sum((one.arm, one.name) == (course.arm, course.name) for one in courses) == 1
        lines[course.name].append((number, {**_trace(course, styles[course.arm], alone), **place}))
    return lines


def _trace(course: Course, style: Style, alone: bool) -> dict[str, Any]:
    """The only run of an arm looks as a mean does."""
    shared = {"type": "scatter", "legendgroup": course.arm, "name": course.arm}
    if course.seed is None:
        look = {"color": style.colour, "width": 2.6, "dash": style.dash}
        hover = "mean of %{fullData.name}: %{y:.4g}<extra></extra>"
        mode = "lines+markers" if len(course.values) <= _FEW else "lines"
        marker = {"color": style.colour, "symbol": style.symbol, "size": 8}
        return {**shared, "mode": mode, "line": look, "marker": marker, "hovertemplate": hover}
    look = {"color": faint(style.colour, 0.42), "width": 1, "dash": "solid" if course.finished else "dot"}
    if alone:
        look = {"color": style.colour, "width": 2, "dash": style.dash if course.finished else "dot"}
    told = "" if course.finished else f", {course.status}"
    return {
        **shared, "mode": "lines" if len(course.values) > 1 else "markers", "line": look,
        "marker": {"color": look["color"], "size": 5}, "meta": f"seed {course.seed}{told}",
        "hovertemplate": "%{fullData.name}, %{meta}: %{y:.4g}<extra></extra>",
    }  # fmt: skip


def _form(lines: Sequence[_Line], name: str, axis: str, scale: str) -> dict[str, Any]:
    data = [{**trace, "x": f"@{number}.{axis}", "y": f"@{number}.values"} for number, trace in lines]
    across = {"title": {"text": _TITLES[axis]}, "type": scale}
    return {"data": data, "layout": {"height": 460, "xaxis": across, "yaxis": {"title": {"text": metric_words(name)}}}}


def _caption(findings: Findings, found: Sequence[Course]) -> str:
    dotted = "" if all(course.finished for course in found) else " Dotted runs diverged or are not finished."
    thinned = " Of runs that logged often, every n-th point is drawn." if any(c.thinned for c in found) else ""
    without = without_course(findings, found)
    lost = f" What these runs logged cannot be read: {'; '.join(without)}." if without else ""
    return (
        "How the arms learned. Each thin line is one seed, the thick one the mean over the seeds that finished, at the "
        "steps that all of them logged; how far the thin lines lie apart is the spread over seeds. A click on an "
        f"arm in the legend hides it, a double click shows it alone.{dotted}{thinned}{lost}"
    )
