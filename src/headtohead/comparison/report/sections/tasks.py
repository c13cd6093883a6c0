"""Several tasks at once: scores by task, interquartile means, who beats whom, and performance profiles; and who can do
what, contestants by abilities as a heat map, where a comparison crosses them with data or tasks."""

from __future__ import annotations

from typing import Any

from headtohead.comparison.analyses.ability_scores import AbilityScore, AbilityScores, scores_of_tasks
from headtohead.comparison.analyses.across_tasks import TaskAggregate
from headtohead.comparison.arm_colours import HEAT, INK, styles_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import hundredths
from headtohead.comparison.report.section_parts import (
    ArmName,
    Cell,
    Column,
    ReportFigure,
    ReportTable,
    ReportText,
    Section,
    Stacked,
    figure,
)
from headtohead.comparison.tables.comparison_formats import cells, heads


def section(results: ComparisonResults) -> Section | None:
    """Return None where there is one task."""
    result = results.tasks
    if result is None:
        return None
    words = ReportText(f"{_capital(result.normalisation)}. {_capital('; '.join(result.sentences))}.")
    return Section("Over tasks", "tasks", [words, _table(result), _profiles(results, result)])


def _table(aggregate: TaskAggregate) -> ReportTable:
    columns = [Column("arm"), *(Column(head, numeric=True) for head in heads(aggregate))]
    rows: list[list[Cell]] = [[ArmName(arm.name), *cells(aggregate, arm)] for arm in aggregate.arms]
    caption = (
        "Scores over tasks. Means over seeds for each task; then the mean of the middle half of all scores, and the "
        f"probability that a run beats one of {aggregate.baseline} on a task drawn at random, each with its 95 % "
        f"interval "
        "by the bootstrap, seeds resampled within each task. A diverged run gets the worst score of all."
    )
    return ReportTable(columns, rows, caption)


def _profiles(results: ComparisonResults, aggregate: TaskAggregate) -> ReportFigure:
    styles = styles_of(results)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "name": arm.name,
            "mode": "lines",
            "x": list(aggregate.thresholds),
            "y": list(arm.profile),
            "line": {"color": styles[arm.name].colour, "dash": styles[arm.name].dash, "width": 2, "shape": "hv"},
            "hovertemplate": "%{y:.3f}",
        }
        for arm in aggregate.arms
    ]
    layout = {
        "xaxis": {"title": {"text": "score"}},
        "yaxis": {"title": {"text": "share of runs above it"}, "range": [0, 1.02]},
        "hovermode": "x unified",
    }
    caption = (
        "Performance profiles. The share of all runs, over tasks and seeds, that score above a value: a line that lies "
        "higher everywhere is better whatever score matters."
    )
    return figure({"data": data, "layout": layout}, caption)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_ROW, _AROUND = 30, 140
"""Pixels of the figure for each of its rows, and for the names above them."""


def abilities_section(results: ComparisonResults) -> Section | None:
    """Return None where there is one data set and one task."""
    scores = results.abilities
    if scores is None and results.tasks is not None:
        scores = scores_of_tasks(results.tasks)
    if scores is None or not any(one.score is not None for one in scores.scores):
        return None
    return Section("Who can do what", "abilities", [_heat_map(scores), _ability_table(scores)])


def _heat_map(scores: AbilityScores) -> ReportFigure:
    """Draw a cell for each score; what is missing is left blank."""
    names = scores.ranked
    drawn = [
        (name, ability, one.score)
        for name in names
        for ability in scores.abilities
        if (one := scores.of(name, ability)) is not None and one.score is not None
    ]
    trace: dict[str, object] = {
        "type": "heatmap",
        "x": [ability for _, ability, _ in drawn],
        "y": [name for name, _, _ in drawn],
        "z": [score for _, _, score in drawn],
        "text": [hundredths(score) for _, _, score in drawn],
        "texttemplate": "%{text}",
        "hovertemplate": "%{y}, %{x}: %{z:.3f}<extra></extra>",
        "zmin": 0,
        "zmax": 1,
        "colorscale": [["0", "--soft"], ["1", HEAT]],
        "textfont": {"color": INK},
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }
    layout = {
        "height": _AROUND + _ROW * len(names),
        "margin": {"t": 64},  # names stand below the buttons of the figure
        "xaxis": {"type": "category", "side": "top", "categoryarray": list(scores.abilities), "showgrid": False},
        "yaxis": {"type": "category", "autorange": "reversed", "categoryarray": names, "showgrid": False},
    }
    caption = (
        f"Who can do what, by {metric_words(scores.metric)}: {scores.normalisation}. Means over seeds; the "
        "higher a score, the stronger its colour. The best on average stands at the top, and a blank cell has no "
        "finished run, or no known chance."
    )
    return figure({"data": [trace], "layout": layout}, caption)


def _ability_table(scores: AbilityScores) -> ReportTable:
    columns = [
        Column("contestant"),
        *(Column(ability, numeric=True) for ability in scores.abilities),
        Column("mean", numeric=True),
    ]
    rows: list[list[Cell]] = []
    for name in scores.ranked:
        mean = scores.mean(name)
        cells: list[Cell] = [_cell(scores.of(name, ability)) for ability in scores.abilities]
        rows.append([name, *cells, "–" if mean is None else hundredths(mean)])
    known = {one.ability: one.chance for one in scores.scores if one.chance is not None}
    chances = ", ".join(f"{ability} {chance:.3g}" for ability, chance in known.items())
    caption = "The same scores; below each the metric itself, and the lowest and highest score where runs are several."
    return ReportTable(columns, rows, f"{caption} Chance by itself: {chances}." if chances else caption)


def _cell(one: AbilityScore | None) -> Cell:
    if one is None or one.score is None:
        return "–"
    below = [] if one.value is None else [f"{one.value:.3f}"]
    if one.runs > 1 and one.lowest is not None and one.highest is not None:
        below.append(f"{hundredths(one.lowest)} to {hundredths(one.highest)}")
    return Stacked(hundredths(one.score), "\n".join(below)) if below else hundredths(one.score)
