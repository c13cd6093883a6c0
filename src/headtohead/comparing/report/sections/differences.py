"""Forest plot: each contrast's difference with its interval, every seed's own, the margin, the detectable effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from headtohead.comparing.findings import Findings
from headtohead.comparing.report.parts import Section, figure
from headtohead.comparing.report.theme import BAND, INK, MUTED, Style, faint, styles_of
from headtohead.comparing.report.words import aim, level, metric_words
from headtohead.comparing.verdict import Verdict

_OF_THE_METRIC = ("paired t", "Welch's t", "ranks", "none")
"""Methods whose difference is one of means; others tell rates or times, on another scale."""
_ROW, _NARROW_ROW, _MANY, _AROUND = 58, 36, 12, 120
"""Pixels of a contrast, and of one among many; from how many on; pixels of the axis and legend."""
_SEED_BELOW = 0.24
_SPARE = 0.06
"""Of the width, at either side."""
_Traces = list[dict[str, Any]]


def section(findings: Findings) -> Section | None:
    verdicts = findings.verdicts
    if not any(_by_seed(findings, verdict) for verdict in verdicts):
        return None
    styles = styles_of(findings)
    rows = list(enumerate(verdicts))
    data: _Traces = []
    for place, verdict in rows:
        data += _row(place, verdict, _by_seed(findings, verdict), styles[verdict.arm])
    data += _detectable(rows)
    form = {"data": data, "layout": _layout(findings, verdicts)}
    return Section("Differences", "differences", [figure(form, _caption(findings))])


def _by_seed(findings: Findings, verdict: Verdict) -> dict[int, float]:
    """Arm minus baseline in each seed; where seeds are no pairs, minus the baseline's mean."""
    arm, baseline = (
        {run.seed: run.value for run in findings.arm(name).runs if run.value is not None}
        for name in (verdict.arm, verdict.baseline)
    )
    if verdict.method == "Welch's t":
        return {seed: value - fmean(baseline.values()) for seed, value in arm.items()} if baseline else {}
    return {seed: arm[seed] - baseline[seed] for seed in sorted(arm.keys() & baseline.keys())}


def _row(place: int, verdict: Verdict, by_seed: dict[int, float], style: Style) -> Iterator[dict[str, Any]]:
    dots = {"color": faint(style.colour, 0.45), "size": 7, "symbol": "circle"}
    yield {
        "type": "scatter", "mode": "markers", "showlegend": False, "marker": dots,
        "x": list(by_seed.values()), "y": [place + _SEED_BELOW] * len(by_seed),
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
        "x": [verdict.difference], "y": [place], "marker": {"color": style.colour, "symbol": style.symbol, "size": 11},
        "text": [verdict.answer], "hovertemplate": "%{text}: %{x:+.4g}<extra></extra>",
    }  # fmt: skip


def _detectable(rows: Sequence[tuple[int, Verdict]]) -> Iterator[dict[str, Any]]:
    known = [(place, verdict.detectable_effect) for place, verdict in rows if verdict.detectable_effect is not None]
    if known:
        yield {
            "type": "scatter", "mode": "markers", "name": "detectable in 80 % of studies",
            "x": [sign * effect for _, effect in known for sign in (-1, 1)],
            "y": [place for place, _ in known for _ in (-1, 1)],
            "marker": {"symbol": "line-ns-open", "size": 20, "color": MUTED, "line": {"width": 1.6, "color": MUTED}},
            "hovertemplate": "detectable: %{x:+.4g}<extra></extra>",
        }  # fmt: skip


def _layout(findings: Findings, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    labels = [
        verdict.arm if verdict.baseline == findings.baseline else f"{verdict.arm}<br>against {verdict.baseline}"
        for verdict in verdicts
    ]
    shapes = []
    if findings.margin is not None:
        band = {"type": "rect", "x0": -findings.margin, "x1": findings.margin, "y0": 0, "y1": 1, "yref": "paper"}
        look = {"fillcolor": faint(BAND, 0.16), "line": {"width": 0}, "layer": "below"}
        shapes.append({**band, **look, "name": "margin", "showlegend": True})
    better = "← better" if findings.direction == "min" else "better →"
    return {
        "height": _AROUND + (_ROW if len(verdicts) <= _MANY else _NARROW_ROW) * len(verdicts),
        "xaxis": {
            "title": {"text": f"difference in {metric_words(findings.metric)}<br>{better}"},
            "range": _range(findings), "zeroline": True, "zerolinecolor": INK, "zerolinewidth": 1.2,
        },
        "yaxis": {
            "tickvals": list(range(len(verdicts))), "ticktext": labels, "range": [len(verdicts) - 0.4, -0.6],
            "showgrid": False, "ticks": "", "showline": False, "fixedrange": True, "tickfont": {"color": INK},
        },
        "shapes": shapes,
    }  # fmt: skip


def _range(findings: Findings) -> list[float]:
    """Holds zero, the margin, and all that is drawn."""
    drawn = [0.0, *(sign * (findings.margin or 0.0) for sign in (-1, 1))]
    for verdict in findings.verdicts:
        drawn += _by_seed(findings, verdict).values()
        drawn += [sign * (verdict.detectable_effect or 0.0) for sign in (-1, 1)]
        if verdict.method in _OF_THE_METRIC:
            drawn += [verdict.difference or 0.0, *(verdict.interval or ())]
    low, high = min(drawn), max(drawn)
    return [low - _SPARE * (high - low), high + _SPARE * (high - low)]


def _caption(findings: Findings) -> str:
    margin = " The band is the margin, within which differences do not matter;" if findings.margin is not None else ""
    rest = " an arm whose whole interval lies within it is equivalent." if margin else ""
    detectable = (
        " Grey ticks stand at the smallest difference that this many seeds find in 80 % of studies so large: "
        "an interval that crosses zero says little about anything smaller."
        if any(verdict.detectable_effect is not None for verdict in findings.verdicts)
        else ""
    )
    without = [verdict for verdict in findings.verdicts if verdict.interval is None]
    none = " Where there is no bar, runs diverged, rates or times decide, or seeds show no spread." if without else ""
    means = (
        f"The large marker is the mean over seeds, its bar the {level(_level(findings))} interval after Student; small "
        "dots below it are single seeds."
        if any(verdict.method in _OF_THE_METRIC for verdict in findings.verdicts)
        else "Dots are single seeds."
    )
    return f"Differences from {findings.baseline} ({aim(findings)}). {means}{margin}{rest}{detectable}{none}"


def _level(findings: Findings) -> float:
    return max((verdict.level for verdict in findings.verdicts), default=findings.alpha)
