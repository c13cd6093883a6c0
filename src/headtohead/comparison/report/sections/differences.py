"""Forest plot: each contrast's difference with its interval, every seed's own, the margin, the detectable effect; and
how evidence grew over seeds in each contrast of a study that adds them until it is decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from headtohead.comparison.arm_colours import BAND, INK, MUTED, ArmStyle, faint, styles_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.contrasts import SeedEvidence, StopReason, Verdict
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import aim
from headtohead.comparison.report.section_parts import (
    ArmName,
    Badge,
    Cell,
    Column,
    ReportTable,
    Section,
    figure,
)
from headtohead.comparison.verdicts.verdict_text import coverage

_OF_THE_METRIC = ("paired t", "Welch's t", "ranks", "e-process", "none")
"""Methods whose difference is one of means; others tell rates or times, on another scale."""
_ROW, _NARROW_ROW, _MANY, _AROUND = 58, 36, 12, 120
"""Pixels of a contrast, and of one among many; from how many on; pixels of the axis and legend."""
_SEED_BELOW = 0.24
_SPARE = 0.06
"""The share of the width that is spare at either side."""
_Traces = list[dict[str, Any]]


def section(results: ComparisonResults) -> Section | None:
    verdicts = results.verdicts
    if not any(_by_seed(results, verdict) for verdict in verdicts):
        return None
    styles = styles_of(results)
    rows = list(enumerate(verdicts))
    data: _Traces = []
    for index, verdict in rows:
        data += _row(index, verdict, _by_seed(results, verdict), styles[verdict.arm])
    data += _detectable(rows)
    form = {"data": data, "layout": _layout(results, verdicts)}
    return Section("Differences", "differences", [figure(form, _caption(results))])


def _by_seed(results: ComparisonResults, verdict: Verdict) -> dict[int, float]:
    """Arm minus baseline in each seed; where seeds are not pairs, minus the baseline's mean."""
    arm, baseline = (
        {run.seed: run.value for run in results.arm(name).runs if run.value is not None}
        for name in (verdict.arm, verdict.baseline)
    )
    if verdict.method == "Welch's t":
        return {seed: value - fmean(baseline.values()) for seed, value in arm.items()} if baseline else {}
    return {seed: arm[seed] - baseline[seed] for seed in sorted(arm.keys() & baseline.keys())}


def _row(index: int, verdict: Verdict, by_seed: dict[int, float], style: ArmStyle) -> Iterator[dict[str, Any]]:
    dots = {"color": faint(style.colour, 0.45), "size": 7, "symbol": "circle"}
    yield {
        "type": "scatter", "mode": "markers", "showlegend": False, "marker": dots,
        "x": list(by_seed.values()), "y": [index + _SEED_BELOW] * len(by_seed),
        "customdata": list(by_seed), "hovertemplate": "seed %{customdata}: %{x:+.4g}<extra></extra>",
    }  # fmt: skip
    if verdict.difference is None or verdict.method not in _OF_THE_METRIC:
        return
    error = {}
    if verdict.interval is not None:
        low, high = verdict.interval
        bars = {"type": "data", "symmetric": False, "thickness": 2.2, "width": 6, "color": style.colour}
        ends = {"array": [high - verdict.difference], "arrayminus": [verdict.difference - low]}
        error = {"error_x": {**bars, **ends}}
    yield {
        "type": "scatter", "mode": "markers", "showlegend": False, **error,
        "x": [verdict.difference], "y": [index], "marker": {"color": style.colour, "symbol": style.symbol, "size": 11},
        "text": [verdict.answer], "hovertemplate": "%{text}: %{x:+.4g}<extra></extra>",
    }  # fmt: skip


def _detectable(rows: Sequence[tuple[int, Verdict]]) -> Iterator[dict[str, Any]]:
    known = [(index, verdict.detectable_effect) for index, verdict in rows if verdict.detectable_effect is not None]
    if known:
        yield {
            "type": "scatter", "mode": "markers", "name": "detectable in 80 % of studies",
            "x": [sign * effect for _, effect in known for sign in (-1, 1)],
            "y": [index for index, _ in known for _ in (-1, 1)],
            "marker": {"symbol": "line-ns-open", "size": 20, "color": MUTED, "line": {"width": 1.6, "color": MUTED}},
            "hovertemplate": "detectable: %{x:+.4g}<extra></extra>",
        }  # fmt: skip


def _layout(results: ComparisonResults, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    labels = [
        verdict.arm if verdict.baseline == results.baseline else f"{verdict.arm}<br>against {verdict.baseline}"
        for verdict in verdicts
    ]
    shapes = []
    if results.margin is not None:
        band = {"type": "rect", "x0": -results.margin, "x1": results.margin, "y0": 0, "y1": 1, "yref": "paper"}
        look = {"fillcolor": faint(BAND, 0.16), "line": {"width": 0}, "layer": "below"}
        shapes.append({**band, **look, "name": "margin", "showlegend": True})
    better = "← better" if results.direction == "min" else "better →"
    return {
        "height": _AROUND + (_ROW if len(verdicts) <= _MANY else _NARROW_ROW) * len(verdicts),
        "xaxis": {
            "title": {"text": f"difference in {metric_words(results.metric)}<br>{better}"},
            "range": _range(results), "zeroline": True, "zerolinecolor": INK, "zerolinewidth": 1.2,
        },
        "yaxis": {
            "tickvals": list(range(len(verdicts))), "ticktext": labels, "range": [len(verdicts) - 0.4, -0.6],
            "showgrid": False, "ticks": "", "showline": False, "fixedrange": True, "tickfont": {"color": INK},
        },
        "shapes": shapes,
    }  # fmt: skip


def _range(results: ComparisonResults) -> list[float]:
    """Holds zero, the margin, and all that is drawn."""
    drawn = [0.0, *(sign * (results.margin or 0.0) for sign in (-1, 1))]
    for verdict in results.verdicts:
        drawn += _by_seed(results, verdict).values()
        drawn += [sign * (verdict.detectable_effect or 0.0) for sign in (-1, 1)]
        if verdict.method in _OF_THE_METRIC:
            drawn += [verdict.difference or 0.0, *(verdict.interval or ())]
    low, high = min(drawn), max(drawn)
    return [low - _SPARE * (high - low), high + _SPARE * (high - low)]


def _caption(results: ComparisonResults) -> str:
    margin = " The band is the margin, within which differences do not matter;" if results.margin is not None else ""
    rest = " an arm whose interval lies entirely within it is equivalent." if margin else ""
    detectable = (
        " Grey ticks stand at the smallest difference that this many seeds find in 80 % of studies so large: "
        "an interval that crosses zero says little about anything smaller."
        if any(verdict.detectable_effect is not None for verdict in results.verdicts)
        else ""
    )
    without = [verdict for verdict in results.verdicts if verdict.interval is None]
    none = " There is no bar if runs diverged, if rates or times decide, or if seeds do not differ." if without else ""
    means = (
        f"The large marker is the mean over seeds, its bar the {coverage(_level(results))} {_interval(results)}; small "
        "dots below it are single seeds."
        if any(verdict.method in _OF_THE_METRIC for verdict in results.verdicts)
        else "Dots are single seeds."
    )
    return f"Differences from {results.baseline} ({aim(results)}). {means}{margin}{rest}{detectable}{none}"


def _interval(results: ComparisonResults) -> str:
    by_rounds = any(verdict.seed_evidence is not None for verdict in results.verdicts)
    return "confidence sequence, which holds at every number of seeds" if by_rounds else "t interval"


def _level(results: ComparisonResults) -> float:
    return max((verdict.level for verdict in results.verdicts), default=results.alpha)


REASONS: dict[StopReason, str] = {
    "decided": "decided",
    "futile": "futile: the seeds left are not expected to decide it",
    "all seeds": "all seeds are in",
    "open": "goes on",
}
_SYMBOLS: dict[StopReason, str] = {"decided": "star", "futile": "x", "all seeds": "square", "open": "circle-open"}
_DASHES = ("solid", "dot", "dash")
_MOST = 1e6
"""Evidence beyond is drawn there."""


def seeds_section(results: ComparisonResults) -> Section | None:
    """Return None where the number of seeds was fixed."""
    known = [(verdict, verdict.seed_evidence) for verdict in results.verdicts if verdict.seed_evidence is not None]
    if not known:
        return None
    styles = styles_of(results)
    data = [trace for verdict, evidence in known for trace in _traces(verdict, evidence, styles[verdict.arm])]
    form = {"data": data, "layout": _evidence_layout([evidence for _, evidence in known])}
    return Section("Evidence over seeds", "seeds", [figure(form, _evidence_caption(known[0][1])), _table(known)])


def _traces(verdict: Verdict, evidence: SeedEvidence, style: ArmStyle) -> Iterator[dict[str, Any]]:
    label = f"{verdict.arm} against {verdict.baseline}"
    for (name, curve), dash in zip(evidence.curves.items(), _DASHES, strict=False):
        drawn = [min(10.0**value, _MOST) for value in curve]
        yield {
            "type": "scatter", "mode": "lines", "name": label, "legendgroup": label, "showlegend": dash == "solid",
            "x": list(range(1, len(curve) + 1)), "y": drawn, "line": {"color": style.colour, "dash": dash},
            "hovertemplate": f"{name}, %{{x}} seeds: %{{y:.3g}}<extra></extra>",
        }  # fmt: skip
        if drawn and dash == "solid":
            yield {
                "type": "scatter", "mode": "markers", "legendgroup": label, "showlegend": False,
                "x": [len(drawn)], "y": [drawn[-1]],
                "marker": {"color": style.colour, "symbol": _SYMBOLS[evidence.stop.reason], "size": 12},
                "text": [f"{label}: {REASONS[evidence.stop.reason]}"], "hovertemplate": "%{text}<extra></extra>",
            }  # fmt: skip


def _evidence_layout(known: Sequence[SeedEvidence]) -> dict[str, Any]:
    rounds, threshold = known[0].rounds, 10.0 ** known[0].threshold
    line = {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": threshold, "y1": threshold}
    return {
        "xaxis": {"title": {"text": "seeds"}, "range": [0.5, rounds.most + 0.5]},
        "yaxis": {"title": {"text": "evidence, 1 is none"}, "type": "log", "exponentformat": "power"},
        "shapes": [
            {**line, "line": {"color": INK, "width": 1.2}},
            {**line, "y0": 1, "y1": 1, "line": {"color": MUTED}},
        ],
    }


def _evidence_caption(evidence: SeedEvidence) -> str:
    both = (
        "Solid lines are the evidence that holds for normal differences, dotted ones that of flipped signs, which "
        "holds for every shape of equal arms: a contrast needs both. "
        if len(evidence.curves) > 1
        else ""
    )
    if len(evidence.curves) > 2:
        both += (
            "Dashed lines are the evidence that the difference lies within the margin: alone it makes arms equivalent. "
        )
    return (
        f"Evidence against equal arms after each seed. {both}Above the dark line ({10**evidence.threshold:.3g}) a "
        "contrast is decided whatever the rest of its family says. Stars mark where one was decided, crosses where it "
        "was stopped for futility, squares where all seeds are in. What was reached once is not lost by a later fall."
    )


def _table(known: Sequence[tuple[Verdict, SeedEvidence]]) -> ReportTable:
    rows: list[list[Cell]] = [
        [
            ArmName(verdict.arm),
            ArmName(verdict.baseline),
            f"{evidence.stop.num_seeds} of {evidence.rounds.most}",
            REASONS[evidence.stop.reason],
            Badge(verdict.kind, verdict.exploratory, verdict.why),
        ]
        for verdict, evidence in known
    ]
    columns = [
        Column("arm"),
        Column("against"),
        Column("seeds", numeric=True),
        Column("why no more"),
        Column("verdict"),
    ]
    return ReportTable(columns, rows, "Seeds of each contrast, and why it got no more.")
