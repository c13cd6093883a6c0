"""Loss and metric against tokens, FLOPs and time: every seed thin, the mean of each arm thick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import Any

from headtohead.comparison.arm_colours import ArmStyle, faint, styles_of
from headtohead.comparison.comparison_results import ComparisonResults, RunResult
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import axis_words
from headtohead.comparison.report.section_parts import Control, ReportFigure, Section, chance_words, with_chance
from headtohead.records.metrics_file import Curve
from headtohead.records.run_folder import RunFolder
from headtohead.records.run_summary import UNNAMED_STAGE

_SCALES = ("linear", "log")
_FEW = 12
"""Points of a mean that are marked, each by itself."""
_TITLES = {"tokens": "tokens", "FLOPs": "training FLOPs", "time": "seconds of training", "steps": "optimizer steps"}

_HINT = "Click an arm in the legend to hide it, double-click to show it alone."

_Line = tuple[int, dict[str, Any]]
"""A trace without its columns, and the number of their names."""


def section(results: ComparisonResults) -> Section | None:
    logged = curves_of(results)
    names = _names(results, logged)
    axes = [axis for axis in AXES if any(any(curve.along[axis]) for curve in logged)]
    if not names or not axes:
        return None
    means = [mean for name in names for arm in results.arms if (mean := mean_of(logged, arm.name, name))]
    drawn_curves = [curve for curve in (*logged, *means) if curve.name in names]
    lines = _lines(results, drawn_curves)
    words = [metric_words(name) for name in names]
    columns: dict[str, Sequence[object]] = {
        f"{number}.{axis}": curve.along[axis] for number, curve in enumerate(drawn_curves) for axis in axes
    }
    columns |= {f"{number}.values": curve.values for number, curve in enumerate(drawn_curves)}
    forms: dict[tuple[str, ...], Any] = {
        (metric_words(name), axis, scale): with_chance(
            _form(lines[name], axis_words(results, name), axis, scale), results.chance(name), columns
        )
        for name, axis, scale in product(names, axes, _SCALES)
    }
    of_chance = chance_words(next(iter(forms.values())), results.chance(names[0]))
    controls = [Control("show", words), Control("against", axes), Control("scale", _SCALES)]
    caption = _caption(results, logged) + of_chance
    return Section("Learning curves", "curves", [ReportFigure(forms, caption, controls, columns, hint=_HINT)])


def _names(results: ComparisonResults, curves: Sequence[LoggedCurve]) -> list[str]:
    known = {curve.name for curve in curves}
    return [name for name in names_of(results) if name in known]


def _lines(results: ComparisonResults, drawn_curves: Sequence[LoggedCurve]) -> dict[str, list[_Line]]:
    """Return the lines by metric; in the legend an arm is named by its mean, or by its first run if it has none."""
    styles = styles_of(results)
    ranks = {arm.name: rank for rank, arm in enumerate(results.arms)}
    named = {(curve.arm, curve.name) for curve in drawn_curves if curve.seed is None}
    lines: dict[str, list[_Line]] = {curve.name: [] for curve in drawn_curves}
    for number, curve in enumerate(drawn_curves):
        displayed = curve.seed is None or (curve.arm, curve.name) not in named
        named.add((curve.arm, curve.name))
        legend = {"showlegend": displayed, "legendrank": ranks[curve.arm]}
        alone = sum((one.arm, one.name) == (curve.arm, curve.name) for one in drawn_curves) == 1
        lines[curve.name].append((number, {**_trace(curve, styles[curve.arm], alone), **legend}))
    return lines


def _trace(curve: LoggedCurve, style: ArmStyle, alone: bool) -> dict[str, Any]:
    """The only run of an arm looks as a mean does."""
    shared = {"type": "scatter", "legendgroup": curve.arm, "name": curve.arm}
    if curve.seed is None:
        look = {"color": style.colour, "width": 2.6, "dash": style.dash}
        hover = "mean of %{fullData.name}: %{y:.4g}<extra></extra>"
        mode = "lines+markers" if len(curve.values) <= _FEW else "lines"
        marker = {"color": style.colour, "symbol": style.symbol, "size": 8}
        return {**shared, "mode": mode, "line": look, "marker": marker, "hovertemplate": hover}
    look = {"color": faint(style.colour, 0.42), "width": 1, "dash": "solid" if curve.finished else "dot"}
    if alone:
        look = {"color": style.colour, "width": 2, "dash": style.dash if curve.finished else "dot"}
    status = "" if curve.finished else f", {curve.status}"
    return {
        **shared, "mode": "lines" if len(curve.values) > 1 else "markers", "line": look,
        "marker": {"color": look["color"], "size": 5}, "meta": f"seed {curve.seed}{status}",
        "hovertemplate": "%{fullData.name}, %{meta}: %{y:.4g}<extra></extra>",
    }  # fmt: skip


def _form(lines: Sequence[_Line], title: str, axis: str, scale: str) -> dict[str, Any]:
    data = [{**trace, "x": f"@{number}.{axis}", "y": f"@{number}.values"} for number, trace in lines]
    from_start = {"rangemode": "tozero"} if scale == "linear" else {}
    across = {"title": {"text": _TITLES[axis]}, "type": scale, **from_start}
    return {"data": data, "layout": {"height": 460, "xaxis": across, "yaxis": {"title": {"text": title}}}}


def _caption(results: ComparisonResults, curves: Sequence[LoggedCurve]) -> str:
    dotted = "" if all(curve.finished for curve in curves) else " Dotted runs diverged or are not finished."
    thinned = " For runs that logged often, every n-th point is drawn." if any(c.thinned for c in curves) else ""
    without = without_curve(results, curves)
    lost = f" The logs of these runs cannot be read: {'; '.join(without)}." if without else ""
    return (
        "How the arms learned. Each thin line is one seed, the thick one the mean over the seeds that finished, at the "
        f"steps that all of them logged; the spread of the thin lines is the spread over seeds.{dotted}{thinned}{lost}"
    )


AXES = ("tokens", "FLOPs", "time", "steps")
_MOST = 400
"""Points of a line: more than a figure has pixels for."""


@dataclass(frozen=True)
class LoggedCurve:
    """One metric over one run, or its mean over the runs of an arm."""

    arm: str
    seed: int | None
    """The seed; None is the mean."""
    status: str
    name: str
    """validation/loss."""
    along: Mapping[str, Sequence[float]]
    """The values along each axis."""
    values: Sequence[float]
    thinned: bool = False

    @property
    def finished(self) -> bool:
        return self.status == "finished"


def curves_of(results: ComparisonResults) -> list[LoggedCurve]:
    """Return the curves of every run that has a folder or came with a curve, whatever its status."""
    names = set(names_of(results))
    return [curve for run in results.runs for curve in _curves(run, results, names)]


def names_of(results: ComparisonResults) -> list[str]:
    """Return the names of all curves that are drawn, the metric on validation data first."""
    metric = results.metric.partition("/")[2]
    return list(dict.fromkeys((f"validation/{metric}", f"{UNNAMED_STAGE}/{metric}", "validation/loss", "train/loss")))


def mean_of(curves: Sequence[LoggedCurve], arm: str, name: str) -> LoggedCurve | None:
    """Return None below two runs that finished, and where no step is common to them."""
    runs = [curve for curve in curves if (curve.arm, curve.name) == (arm, name) and curve.finished]
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
        return {f"{UNNAMED_STAGE}/{results.metric.partition('/')[2]}": results.curves[run.record.id]}
    folder = run.record.path
    try:
        return RunFolder(folder).metrics(names) if folder is not None and folder.is_dir() else {}
    except ValueError:  # zeros that a power failure left are no reason to have no report
        return {}


def without_curve(results: ComparisonResults, curves: Sequence[LoggedCurve]) -> list[str]:
    """Runs that finished and have a folder, of which nothing can be drawn."""
    drawn = {(curve.arm, curve.seed) for curve in curves}
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
