"""Parallel coordinates: a line for each trial, through its value of every parameter, to what came out.

Drawn as plain lines: Plotly's own kind compiles programs while the page is shown, which the page's policy forbids.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headtohead.comparing.report.parts import Figure, figure
from headtohead.comparing.report.theme import INK, MUTED, faint
from headtohead.comparing.report.words import metric_words
from headtohead.comparing.table import number
from headtohead.comparing.trials import Value, written
from headtohead.studying.sweeping.outcomes import Outcome
from headtohead.studying.sweeping.planning import SweptRun

_COLOUR = "--arm-1"
_FAINTEST, _STRONGEST = 0.12, 0.8
_DECADE, _MOST_NAMES = 10.0, 12
_APART = 0.012
"""Of an axis: how far its labels stand off."""
Measured = tuple[SweptRun, Outcome]


@dataclass(frozen=True)
class Axis:
    """One parameter, or the metric."""

    name: str
    heights: tuple[float, ...]
    """Of the trials, from 0 to 1."""
    labels: tuple[tuple[float, str], ...]
    """Heights with what stands there."""


def parallel(measured: Sequence[Measured], metric: str, *, larger_is_better: bool) -> Figure:
    """The trials come best first."""
    fields = list(measured[0][0].setting.values)
    axes = [_axis(field, [trial.setting.values[field] for trial, _ in measured]) for field in fields]
    axes.append(_axis(metric_words(metric), [outcome.value for _, outcome in measured]))
    places = list(range(len(axes)))
    lines = [
        _line(trial, outcome, rank, len(measured), places, [axis.heights[rank] for axis in axes])
        for rank, (trial, outcome) in enumerate(measured)
    ]
    names = [axis.name for axis in axes]
    layout = {
        "xaxis": {"tickvals": places, "ticktext": names, "range": [-0.15, len(axes) - 0.6], "showgrid": True},
        "yaxis": {"visible": False, "range": [-0.06, 1.06]},
        "showlegend": False,
        "annotations": [
            {"x": place + _APART, "y": height, "text": label, "showarrow": False, "xanchor": "left", "yshift": 9,
             "font": {"color": MUTED, "size": 11}}
            for place, axis in enumerate(axes)
            for height, label in axis.labels
        ],
    }  # fmt: skip
    better = "higher" if larger_is_better else "lower"
    caption = (
        f"Every trial that measured something. The stronger the line, the better its {metric_words(metric)} ({better} "
        "is better); the best is drawn in ink. One trial is one run with one seed: neighbours differ by chance too."
    )
    return figure({"data": lines[::-1], "layout": layout}, caption)


def _line(
    trial: SweptRun, outcome: Outcome, rank: int, count: int, places: list[int], heights: list[float]
) -> dict[str, Any]:
    share = rank / max(1, count - 1)
    colour = INK if rank == 0 else faint(_COLOUR, _STRONGEST + (_FAINTEST - _STRONGEST) * share)
    told = f"trial {trial.number}: {number(outcome.value)}, {outcome.status}"
    words = "<br>".join([told, *trial.setting.overrides])
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": places,
        "y": heights,
        "text": [words] * len(places),
        "line": {"color": colour, "width": 3 if rank == 0 else 1.5},
        "marker": {"color": colour, "size": 5},
        "hovertemplate": "%{text}<extra></extra>",
    }


def _axis(name: str, values: Sequence[Value]) -> Axis:
    figures = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(figures) < len(values):
        return _named(name, [written(value) for value in values])
    if len(set(figures)) <= _MOST_NAMES and len(set(figures)) < len(figures):
        return _spread(name, figures, sorted(set(figures)))
    return _spread(name, figures, [min(figures), max(figures)])


def _named(name: str, words: Sequence[str]) -> Axis:
    known = list(dict.fromkeys(sorted(words)))
    at = {word: _share(place, 0, len(known) - 1) for place, word in enumerate(known)}
    shown = known if len(known) <= _MOST_NAMES else [known[0], known[-1]]
    return Axis(name, tuple(at[word] for word in words), tuple((at[word], word) for word in shown))


def _spread(name: str, figures: Sequence[float], shown: Sequence[float]) -> Axis:
    low, high = min(figures), max(figures)
    log = low > 0 and high >= _DECADE * low
    ends = (math.log(low), math.log(high)) if log else (low, high)
    heights = {value: _share(math.log(value) if log else value, *ends) for value in figures}
    return Axis(
        name,
        tuple(heights[value] for value in figures),
        tuple((heights[value], f"{value:.4g}") for value in dict.fromkeys(shown)),
    )


def _share(value: float, low: float, high: float) -> float:
    return 0.5 if high <= low else (value - low) / (high - low)
