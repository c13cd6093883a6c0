"""Tuning: the value of every setting that was tried, what fewer trials would have given, and what each arm received."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headtohead.comparison.analyses.trials import Trial, ValueChoices, ValueRange, written
from headtohead.comparison.analyses.tuning_summary import ArmTuning, TuningSummary
from headtohead.comparison.arm_colours import ArmStyle, styles_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import UNKNOWN
from headtohead.comparison.report.section_parts import (
    ArmName,
    Cell,
    Code,
    CollapsedParts,
    Column,
    Control,
    ReportFigure,
    ReportTable,
    ReportText,
    Section,
    SectionPart,
    chance_words,
    figure,
    with_chance,
)
from headtohead.comparison.tables.run_table import count, number

_DECADE, _FEW_DECADES = 10, 1000
_ABOVE, _APART = 0.1, 0.05
"""The distance, as a share of the height of the values, at which crosses are drawn off the worst one, and those of
different arms apart."""


def section(results: ComparisonResults) -> Section | None:
    """Return None where nothing was tuned."""
    summary = results.tuning
    if summary is None or not any(arm.trials for arm in summary.arms):
        return None
    styles = styles_of(results)
    parts: list[SectionPart] = [ReportText(summary.sentence)]
    parts += [ReportText(f"{remark}.", "warning") for remark in summary.remarks]
    parts.append(_table(summary))
    chance = results.chance(summary.design.metric)
    parts.append(_values(summary, styles, chance))
    parts.append(_best_of_k(summary, styles, chance))
    parts.append(CollapsedParts("Every trial", [*map(ReportText, summary.sentences), _trials(summary)]))
    return Section("Tuning", "tuning", parts)


def _table(summary: TuningSummary) -> ReportTable:
    columns = [
        Column("arm"), Column(metric_words(summary.design.metric), True), Column("trials", True),
        Column("diverged", True), Column("failed", True), Column("FLOPs", True), Column("on the edge"),
        Column("best setting"),
    ]  # fmt: skip
    caption = (
        "How much tuning each arm received. If the best setting is at an edge of the space, a better one may lie "
        "beyond it; "
        "FLOPs are those of all trials."
    )
    return ReportTable(columns, [_row(summary, arm) for arm in summary.arms], caption)


def _row(summary: TuningSummary, arm: ArmTuning) -> list[Cell]:
    edges = ", ".join(f"{edge.field}: {edge.side}" for edge in arm.edges)
    return [
        ArmName(arm.arm),
        UNKNOWN if arm.best is None else number(arm.best.value),
        f"{len(arm.trials)} of {summary.design.trials}",
        str(arm.diverged),
        str(arm.failed),
        count(arm.flops),
        edges or "no",
        UNKNOWN if arm.best is None else Code(arm.best.setting.words),
    ]


def _values(summary: TuningSummary, styles: Mapping[str, ArmStyle], chance: float | None) -> ReportFigure:
    fields = list(dict.fromkeys(key for arm in summary.arms for key in arm.space))
    forms: dict[tuple[str, ...], Any] = {
        (field,): with_chance(_against(summary, field, styles), chance) for field in fields
    }
    below = "below" if summary.design.larger_is_better else "above"
    metric = metric_words(summary.design.metric).capitalize()
    caption = (
        f"{metric} of every trial. Ringed is the best of each arm; crosses {below} the values are trials that "
        "diverged or failed. One trial is one run with one seed: neighbours differ at random too."
        f"{chance_words(forms[(fields[0],)], chance)}"
    )
    if len(fields) == 1:
        return figure(forms[(fields[0],)], caption)
    return ReportFigure(forms, caption, (Control("against", fields),))


def _against(summary: TuningSummary, field: str, styles: Mapping[str, ArmStyle]) -> dict[str, Any]:
    data = []
    for index, arm in enumerate(summary.arms):
        if field in arm.space:
            data += _traces(arm, field, styles[arm.arm], _height_of_crosses(summary, index))
    axis: dict[str, Any] = {"title": {"text": field}, "type": _scale(summary, field)}
    if axis["type"] == "log":
        xs = [index for trace in data for index in trace["x"]]
        few = max(xs) <= _FEW_DECADES * min(xs)
        # Labels stand at 1, 2 and 5, or at 1 alone.
        axis |= {"dtick": "D2", "tickformat": "~g"} if few else {"dtick": 1, "exponentformat": "power"}
    return {"data": data, "layout": {"xaxis": axis, "yaxis": {"title": {"text": metric_words(summary.design.metric)}}}}


def _traces(arm: ArmTuning, field: str, style: ArmStyle, height: float) -> list[dict[str, Any]]:
    finished = _along(field, [trial for trial in arm.trials if trial.value is not None])
    others = [trial for trial in arm.trials if trial.value is None]
    shared = {"legendgroup": arm.arm, "hovertemplate": "%{text}<br>%{y:.4g}<extra></extra>"}
    marker = {"color": style.colour, "symbol": style.symbol, "size": 8}
    traces = [
        {
            **shared,
            "name": arm.arm,
            "mode": "lines+markers" if len(arm.space) == 1 else "markers",
            **_points(field, finished, [trial.value for trial in finished]),
            "line": {"color": style.colour, "dash": style.dash, "width": 2},
            "marker": marker,
        }
    ]
    if arm.best is not None:
        ring = {**marker, "symbol": "circle-open", "size": 18, "line": {"width": 2.5, "color": style.colour}}
        traces.append({**shared, "mode": "markers", **_points(field, [arm.best], [arm.best.value]), "marker": ring})
    if others:
        cross = {**marker, "symbol": "x-thin", "size": 9, "line": {"width": 2.5, "color": style.colour}}
        data = {**shared, "hovertemplate": "%{text}<extra></extra>"}
        traces.append({**data, "mode": "markers", **_points(field, others, [height] * len(others)), "marker": cross})
    return [{"type": "scatter", "showlegend": index == 0, **trace} for index, trace in enumerate(traces)]


def _points(field: str, trials: list[Trial], heights: list[Any]) -> dict[str, Any]:
    return {
        "x": [_shown(trial, field) for trial in trials],
        "y": heights,
        "text": [f"{trial.setting.words}, trial {trial.number}: {trial.status}" for trial in trials],
    }


def _along(field: str, trials: list[Trial]) -> list[Trial]:
    """Sort the trials along the field, if its values can be ordered."""
    numbers = all(isinstance(_shown(trial, field), int | float) for trial in trials)
    return sorted(trials, key=lambda trial: _shown(trial, field)) if numbers else trials


def _shown(trial: Trial, field: str) -> Any:
    value = trial.setting.values[field]
    return value if isinstance(value, int | float) and not isinstance(value, bool) else written(value)


def _scale(summary: TuningSummary, field: str) -> str:
    dimensions = [arm.space[field] for arm in summary.arms if field in arm.space]
    if any(isinstance(dimension, ValueChoices) and not dimension.numbers for dimension in dimensions):
        return "category"
    ranges = [dimension for dimension in dimensions if isinstance(dimension, ValueRange)]
    if ranges:
        return "log" if all(dimension.scale == "log" for dimension in ranges) else "linear"
    numbers = [value for dimension in dimensions if isinstance(dimension, ValueChoices) for value in dimension.numbers]
    return "log" if min(numbers) > 0 and max(numbers) >= _DECADE * min(numbers) else "linear"


def _height_of_crosses(summary: TuningSummary, position: int) -> float:
    """Beyond the worst value; each arm's a little further than the last's, so that none hides another."""
    values = [trial.value for arm in summary.arms for trial in arm.trials if trial.value is not None] or [0.0]
    extent = (max(values) - min(values)) or 1.0
    away = (_ABOVE + position * _APART) * extent
    return min(values) - away if summary.design.larger_is_better else max(values) + away


def _best_of_k(summary: TuningSummary, styles: Mapping[str, ArmStyle], chance: float | None) -> ReportFigure:
    data = [
        {
            "type": "scatter",
            "name": arm.arm,
            "mode": "lines+markers",
            "x": list(range(1, len(arm.best_of_k) + 1)),
            "y": list(arm.best_of_k),
            "line": {"color": styles[arm.arm].colour, "dash": styles[arm.arm].dash, "width": 2},
            "marker": {"color": styles[arm.arm].colour, "symbol": styles[arm.arm].symbol, "size": 7},
            "hovertemplate": "best of %{x}: %{y:.4g}<extra></extra>",
        }
        for arm in summary.arms
    ]
    layout = {
        "xaxis": {"title": {"text": "trials"}, "dtick": 1 if summary.design.trials <= 2 * _DECADE else None},
        "yaxis": {"title": {"text": f"expected best {metric_words(summary.design.metric)}"}},
    }
    caption = (
        "What fewer trials would have given. The expected best of k trials of an arm, the mean over all choices of k; "
        "where lines cross, the better arm depends on how much it is tuned. A line starts at the smallest k for "
        "which every choice contains a successful trial."
    )
    form = with_chance({"data": data, "layout": layout}, chance)
    return figure(form, caption + chance_words(form, chance))


def _trials(summary: TuningSummary) -> ReportTable:
    rows: list[list[Cell]] = [
        [ArmName(arm.arm), str(trial.number), Code(trial.setting.words), trial.status.replace("_", " "),
         UNKNOWN if trial.value is None else number(trial.value), count(trial.flops)]
        for arm in summary.arms
        for trial in arm.trials
    ]  # fmt: skip
    columns = [
        Column("arm"), Column("trial", True), Column("setting"), Column("status"),
        Column(metric_words(summary.design.metric), True), Column("FLOPs", True),
    ]  # fmt: skip
    return ReportTable(columns, rows)
