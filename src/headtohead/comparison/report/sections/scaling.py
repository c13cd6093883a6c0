"""Show how the loss of families of arms falls with parameters, tokens and FLOPs, and the best split of a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headtohead.comparison.analyses.scaling_fits import ArmFamily, Axis, ScalingFit, ScalingFits
from headtohead.comparison.arm_colours import numbered_style
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import UNKNOWN, axis_words
from headtohead.comparison.report.section_parts import (
    Cell,
    Column,
    Control,
    ReportFigure,
    ReportTable,
    ReportText,
    Section,
    SectionPart,
    chance_words,
    with_chance,
)
from headtohead.comparison.statistics.scaling_laws import FittedValue
from headtohead.comparison.tables.run_table import count
from headtohead.comparison.verdicts.verdict_text import coverage

_WORDS: dict[Axis, str] = {"parameters": "parameters", "tokens": "training tokens", "flops": "training FLOPs"}
_COVERAGE = (
    "With planted laws, 92 to 96 of 100 such 95 % intervals contained the truth, and 90 to 98 where tokens spanned no "
    "more than a factor of 4. A fitted floor of zero leaves the upper ends open."
)
_SHOWN_AXES = 60
"""Points of a drawn law."""


def section(results: ComparisonResults) -> Section | None:
    """Return None where no law was requested."""
    result = results.scaling
    if result is None or not any(family.points for family in result.families):
        return None
    return Section(
        "Scaling laws", "scaling", tuple(_parts(result, axis_words(results, result.metric), results.chance()))
    )


def _parts(fits: ScalingFits, title: str, chance: float | None) -> Iterator[SectionPart]:
    yield _curves(fits, title, chance)
    yield _laws(fits)
    for family in fits.families:
        for fit in family.fits:
            if fit.reason is not None:
                yield ReportText(f"No law of {family.name} over {_WORDS[fit.axis]}: {fit.reason}.", "note")
    if any(family.joint is not None for family in fits.families):
        yield _joint_laws(fits)
    if any(family.joint is not None and family.joint.frontier for family in fits.families):
        yield _frontier(fits)
    for family in fits.families:
        if family.joint is not None and family.joint.reason is not None:
            yield ReportText(f"There is no best split of FLOPs for {family.name}: {family.joint.reason}.", "note")
        if family.diverged:
            plural = "" if family.diverged == 1 else "s"
            yield ReportText(f"{family.diverged} run{plural} of {family.name} diverged: no point of a law.", "warning")


def _curves(fits: ScalingFits, title: str, chance: float | None) -> ReportFigure:
    axes = [fit.axis for fit in fits.families[0].fits]
    forms: dict[tuple[str, ...], Any] = {
        ((_WORDS[axis],) if len(axes) > 1 else ()): with_chance(_form(fits, title, axis), chance) for axis in axes
    }
    caption = (
        f"{metric_words(fits.metric).capitalize()} of every finished run over its size, each with a schedule of its "
        "own. Filled points are those that a law was fitted to: the runs on most tokens for parameters, those "
        "of the largest model for tokens, and for FLOPs those that no cheaper ones beat. Lines are the fitted laws."
        f"{chance_words(next(iter(forms.values())), chance)}"
    )
    return ReportFigure(forms, caption, (Control("over", [_WORDS[axis] for axis in axes]),) if len(axes) > 1 else ())


def _form(fits: ScalingFits, title: str, axis: Axis) -> dict[str, Any]:
    data: list[dict[str, Any]] = []
    for index, family in enumerate(fits.families):
        fit = next(fit for fit in family.fits if fit.axis == axis)
        style = numbered_style(index)
        data += _traces(family, fit, style.colour, style.symbol)
    layout = {
        "xaxis": {"type": "log", "title": {"text": _WORDS[axis]}},
        "yaxis": {"type": "log", "title": {"text": title}},
    }
    return {"data": data, "layout": layout}


def _traces(family: ArmFamily, fit: ScalingFit, colour: str, symbol: str) -> Iterator[dict[str, Any]]:
    fitted = set(fit.points)
    yield {
        "type": "scatter",
        "mode": "markers",
        "name": family.name,
        "legendgroup": family.name,
        "x": [getattr(point, fit.axis) for point in family.points],
        "y": [point.loss for point in family.points],
        "text": [f"{point.arm}, seed {point.seed}, {point.share:.0%} of the budget" for point in family.points],
        "marker": {
            "color": colour,
            "size": 8,
            "symbol": [symbol if point in fitted else f"{symbol}-open" for point in family.points],
        },
    }
    if fit.floor is not None and fit.scale is not None and fit.exponent is not None:
        sizes = [getattr(point, fit.axis) for point in family.points]
        x = np.geomspace(min(sizes), max(sizes), _SHOWN_AXES)
        yield {
            "type": "scatter",
            "mode": "lines",
            "name": f"{family.name}, fitted",
            "legendgroup": family.name,
            "showlegend": False,
            "x": x.tolist(),
            "y": (fit.floor.value + fit.scale.value * x**-fit.exponent.value).tolist(),
            "line": {"color": colour},
        }


def _laws(fits: ScalingFits) -> ReportTable:
    columns = [Column("family"), Column("over"), Column("exponent", numeric=True), Column("floor", numeric=True)]
    columns += [Column("scale", numeric=True), Column("runs", numeric=True)]
    rows = [
        [
            family.name,
            _WORDS[fit.axis],
            *(_fitted(each) for each in (fit.exponent, fit.floor, fit.scale)),
            str(len(fit.points)),
        ]
        for family in fits.families
        for fit in family.fits
    ]
    caption = (
        f"{metric_words(fits.metric)} = floor + scale · size^(−exponent), with {coverage(fits.alpha)} bootstrap "
        f"intervals; the floor is what no size removes. {_COVERAGE}"
    )
    return ReportTable(columns, rows, caption)


def _joint_laws(fits: ScalingFits) -> ReportTable:
    names = ("exponent", "token_exponent", "floor", "frontier_exponent")
    labels = ("of parameters", "of tokens", "floor", "of the best size")
    rows: list[Sequence[Cell]] = []
    for family in fits.families:
        if family.joint is not None:
            rows.append([family.name, *(_fitted(getattr(family.joint, name)) for name in names)])
    caption = (
        f"The law of both, {metric_words(fits.metric)} = floor + scale · parameters^(−exponent) + scale · "
        f"tokens^(−exponent), where sizes and tokens vary apart; with {coverage(fits.alpha)} bootstrap intervals. The "
        "best size grows with its power of the FLOPs."
    )
    return ReportTable([Column("family"), *(Column(label, numeric=True) for label in labels)], rows, caption)


def _frontier(fits: ScalingFits) -> ReportTable:
    columns = [Column("family"), Column("FLOPs", numeric=True), Column("parameters", numeric=True)]
    columns += [Column("tokens", numeric=True), Column("seen", wide=True)]
    rows = [
        [
            family.name,
            count(point.flops),
            _counted(point.parameters),
            _counted(point.tokens),
            "extrapolated: no run was as large" if point.beyond else "within the runs",
        ]
        for family in fits.families
        if family.joint is not None
        for point in family.joint.frontier
    ]
    caption = (
        "The compute-optimal frontier of the law of both: the parameters and tokens that minimise the loss for a "
        f"number of FLOPs, with {coverage(fits.alpha)} bootstrap intervals."
    )
    return ReportTable(columns, rows, caption)


def _fitted(each: FittedValue | None) -> str:
    return UNKNOWN if each is None else each.words


def _counted(each: FittedValue) -> str:
    return f"{count(each.value)} [{count(each.low)}, {count(each.high)}]"
