"""Loss and metric against tokens, FLOPs and time: every seed thin, the mean of each arm thick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import Any

from headtohead.comparison.comparison_results import ComparisonResults, RunResult
from headtohead.comparison.report.arm_styles import ArmStyle, faint, styles_of
from headtohead.comparison.report.chance_line import chance_words, with_chance
from headtohead.comparison.report.number_format import metric_words
from headtohead.comparison.report.section_parts import Control, ReportFigure, Section
from headtohead.records.headline import GIVEN
from headtohead.records.metrics_file import Curve
from headtohead.records.store import RunFolder

_SCALES = ("linear", "log")
_FEW = 12
"""Points of a mean that are marked, each by itself."""
_TITLES = {"tokens": "tokens", "FLOPs": "training FLOPs", "time": "seconds of training", "steps": "optimizer steps"}

_Line = tuple[int, dict[str, Any]]
"""A trace without its columns, and the number of their names."""


def section(results: ComparisonResults) -> Section | None:
    result = curves_of(results)
    names = _names(results, result)
    axes = [axis for axis in AXES if any(any(course.along[axis]) for course in result)]
    if not names or not axes:
        return None
    means = [mean for name in names for arm in results.arms if (mean := mean_of(result, arm.name, name))]
    courses = [course for course in (*result, *means) if course.name in names]
    lines = _lines(results, courses)
    words = [metric_words(name) for name in names]
    columns: dict[str, Sequence[Any]] = {
        f"{number}.{axis}": course.along[axis] for number, course in enumerate(courses) for axis in axes
    }
    columns |= {f"{number}.values": course.values for number, course in enumerate(courses)}
    forms: dict[tuple[str, ...], Any] = {
        (metric_words(name), axis, scale): with_chance(
            _form(lines[name], name, axis, scale), results.chance(name), columns
        )
        for name, axis, scale in product(names, axes, _SCALES)
    }
    of_chance = chance_words(next(iter(forms.values())), results.chance(names[0]))
    controls = [Control("show", words), Control("against", axes), Control("scale", _SCALES)]
    return Section(
        "Learning curves", "curves", [ReportFigure(forms, _caption(results, result) + of_chance, controls, columns)]
    )


def _names(results: ComparisonResults, curves: Sequence[LoggedCurve]) -> list[str]:
    known = {course.name for course in curves}
    return [name for name in names_of(results) if name in known]


def _lines(results: ComparisonResults, courses: Sequence[LoggedCurve]) -> dict[str, list[_Line]]:
    """Return the lines by metric; in the legend an arm is named by its mean, or by its first run if it has none."""
    styles = styles_of(results)
    named = {(course.arm, course.name) for course in courses if course.seed is None}
    lines: dict[str, list[_Line]] = {course.name: [] for course in courses}
    for number, course in enumerate(courses):
        displayed = course.seed is None or (course.arm, course.name) not in named
        named.add((course.arm, course.name))
        legend = {"showlegend": displayed, "legendrank": list(styles).index(course.arm)}
        alone = sum((one.arm, one.name) == (course.arm, course.name) for one in courses) == 1
        lines[course.name].append((number, {**_trace(course, styles[course.arm], alone), **legend}))
    return lines


def _trace(course: LoggedCurve, style: ArmStyle, alone: bool) -> dict[str, Any]:
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
    status = "" if course.finished else f", {course.status}"
    return {
        **shared, "mode": "lines" if len(course.values) > 1 else "markers", "line": look,
        "marker": {"color": look["color"], "size": 5}, "meta": f"seed {course.seed}{status}",
        "hovertemplate": "%{fullData.name}, %{meta}: %{y:.4g}<extra></extra>",
    }  # fmt: skip


def _form(lines: Sequence[_Line], name: str, axis: str, scale: str) -> dict[str, Any]:
    data = [{**trace, "x": f"@{number}.{axis}", "y": f"@{number}.values"} for number, trace in lines]
    across = {"title": {"text": _TITLES[axis]}, "type": scale}
    return {"data": data, "layout": {"height": 460, "xaxis": across, "yaxis": {"title": {"text": metric_words(name)}}}}


def _caption(results: ComparisonResults, curves: Sequence[LoggedCurve]) -> str:
    dotted = "" if all(course.finished for course in curves) else " Dotted runs diverged or are not finished."
    thinned = " For runs that logged often, every n-th point is drawn." if any(c.thinned for c in curves) else ""
    without = without_curve(results, curves)
    lost = f" The logs of these runs cannot be read: {'; '.join(without)}." if without else ""
    return (
        "How the arms learned. Each thin line is one seed, the thick one the mean over the seeds that finished, at the "
        "steps that all of them logged; the spread of the thin lines is the spread over seeds. Click an arm in the "
        f"legend to hide it, double-click to show it alone.{dotted}{thinned}{lost}"
    )


AXES = ("tokens", "FLOPs", "time", "steps")
_MOST = 400
"""Points of a line: more than a figure has pixels for."""


@dataclass(frozen=True)
class LoggedCurve:
    """One metric over one run, or its mean over the runs of an arm."""

    arm: str
    seed: int | None
    """None: the mean."""
    status: str
    name: str
    """validation/loss."""
    along: Mapping[str, Sequence[float]]
    """By axis."""
    values: Sequence[float]
    thinned: bool = False

    @property
    def finished(self) -> bool:
        return self.status == "finished"


def curves_of(results: ComparisonResults) -> list[LoggedCurve]:
    """Return the curves of every run that has a folder or came with a curve, whatever its status."""
    names = set(names_of(results))
    return [course for run in results.runs for course in _curves(run, results, names)]


def names_of(results: ComparisonResults) -> list[str]:
    """Return the names of all curves that are drawn, the metric on validation data first."""
    metric = results.metric.partition("/")[2]
    return list(dict.fromkeys((f"validation/{metric}", f"{GIVEN}/{metric}", "validation/loss", "train/loss")))


def mean_of(curves: Sequence[LoggedCurve], arm: str, name: str) -> LoggedCurve | None:
    """Return None below two runs that finished, and where no step is common to them."""
    runs = [course for course in curves if (course.arm, course.name) == (arm, name) and course.finished]
    if len(runs) < 2:
        return None
    index_of_step = [{step: index for index, step in enumerate(run.along["steps"])} for run in runs]
    common = sorted(set(index_of_step[0]).intersection(*index_of_step[1:]))
    if not common:
        return None

    def mean(columns: Sequence[Sequence[float]]) -> list[float]:
        return [
            fmean(column[index[step]] for column, index in zip(columns, index_of_step, strict=True)) for step in common
        ]

    along = {axis: mean([run.along[axis] for run in runs]) for axis in AXES}
    return LoggedCurve(arm, None, "finished", name, along, mean([run.values for run in runs]))


def _curves(run: RunResult, results: ComparisonResults, names: set[str]) -> Iterator[LoggedCurve]:
    for name, curve in _logged(run, results, names).items():
        if name in names:
            indices = _thinned_indices(len(curve))
            along = {axis: [column[i] for i in indices] for axis, column in _columns(curve).items()}
            values = [curve.value[i] for i in indices]
            yield LoggedCurve(run.arm, run.seed, run.status, name, along, values, len(indices) < len(curve))


def _logged(run: RunResult, results: ComparisonResults, names: set[str]) -> Mapping[str, Curve]:
    if run.record is None:
        return {}
    if run.record.id in results.curves:
        return {f"{GIVEN}/{results.metric.partition('/')[2]}": results.curves[run.record.id]}
    folder = run.record.path
    try:
        return RunFolder(folder).metrics(names) if folder is not None and folder.is_dir() else {}
    except ValueError:  # zeros that a power failure left are no reason to have no report
        return {}


def without_curve(results: ComparisonResults, curves: Sequence[LoggedCurve]) -> list[str]:
    """Runs that finished and have a folder, of which nothing can be drawn."""
    drawn = {(course.arm, course.seed) for course in curves}
    return [
        f"{run.arm}, seed {run.seed}"
        for run in results.runs
        if run.record is not None and run.record.path is not None and run.status == "finished"
        if (run.arm, run.seed) not in drawn
    ]


def _columns(curve: Curve) -> dict[str, Sequence[float]]:
    return dict(zip(AXES, (curve.tokens, curve.flops, curve.seconds, curve.step), strict=True))


def _thinned_indices(length: int) -> list[int]:
    """Return every n-th, and the last."""
    stride = -(-length // _MOST)
    return sorted({*range(0, length, stride), length - 1}) if length else []
