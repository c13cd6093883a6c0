"""Quality against cost, and the arms that no other arm beats in both; how fast each arm trained and how much memory it
took, as measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from headtohead.comparison.arm_colours import INK, MUTED, ArmStyle, faint, styles_of
from headtohead.comparison.arms import energy_source
from headtohead.comparison.comparability import seed_of
from headtohead.comparison.comparison_results import ArmResult, ComparisonResults
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import aim, axis_words
from headtohead.comparison.report.section_parts import Control, ReportFigure, Section, chance_words, figure, with_chance
from headtohead.comparison.statistics.means import mean_interval
from headtohead.comparison.verdicts.verdict_text import coverage
from headtohead.records.record import RunRecord

_WIDE = 8
"""The ratio of the largest cost to the smallest from which on the axis is logarithmic."""
_SAME = 1.001
"""A ratio of costs up to which there is nothing to choose between arms."""


@dataclass(frozen=True)
class _Point:
    arm: str
    cost: float
    quality: float
    interval: tuple[float, float] | None
    seeds: tuple[tuple[int, float, float], ...]
    """Seed, cost and quality of each run."""


_COSTS: Mapping[str, tuple[str, Callable[[RunRecord], float | None]]] = {
    "FLOPs": ("training FLOPs", lambda record: record.progress.flops),
    "time": ("seconds of training", lambda record: record.progress.seconds),
    "parameters": ("parameters", lambda record: record.costs.get("totals", {}).get("parameters")),
    "memory": ("peak memory in MiB", lambda record: (record.throughput.get("peak_memory_bytes") or 0) / 2**20),
    "energy": ("joules of training", lambda record: record.throughput.get("joules")),
    "state": ("state elements when decoding", lambda record: record.costs.get("totals", {}).get("state_elements")),
}


def section(results: ComparisonResults) -> Section | None:
    points = {name: _points(results, of) for name, (_, of) in _COSTS.items()}
    if (
        len(
            {
                energy_source(run.record)
                for arm in results.arms
                for run in arm.runs
                if run.value is not None and run.record
            }
        )
        > 1
    ):
        points["energy"] = []  # amounts of different counters, or of some arms alone, have no common axis
    data = {name: arm_points for name, arm_points in points.items() if len(arm_points) > 1}
    known = {name: arm_points for name, arm_points in data.items() if _differ(arm_points)}
    if not known:
        return None
    equal = [name for name in data if name not in known]
    styles = styles_of(results)
    chance = results.chance()
    forms: dict[tuple[str, ...], Any] = {
        (name,): with_chance(_form(results, name, arm_points, styles), chance) for name, arm_points in known.items()
    }
    caption = (
        f"Quality against cost. Large markers are arms: the mean {metric_words(results.metric)} ({aim(results)}) "
        f"over seeds with its {coverage(results.alpha)} t interval; small dots are single seeds. The line "
        "joins the arms that no other arm beats in cost and quality at once, by their means: where intervals overlap, "
        f"their order may be chance.{f' All arms have the same {_listed(equal)}.' if equal else ''}"
        f"{chance_words(next(iter(forms.values())), chance)}"
    )
    return Section("Quality against cost", "pareto", [ReportFigure(forms, caption, [Control("cost", list(known))])])


def _points(results: ComparisonResults, of: Callable[[RunRecord], float | None]) -> list[_Point]:
    return [point for arm in results.arms if (point := _point(arm, of, results))]


def _point(arm: ArmResult, of: Callable[[RunRecord], float | None], results: ComparisonResults) -> _Point | None:
    seeds = tuple(
        (run.seed, cost, run.value)
        for run in arm.runs
        if run.record is not None and run.value is not None and (cost := of(run.record))
    )
    if not seeds:
        return None
    values = [value for _, _, value in seeds]
    around = mean_interval(values, results.alpha, results.measured)
    return _Point(arm.name, fmean(c for _, c, _ in seeds), fmean(values), around, seeds)


def _differ(points: list[_Point]) -> bool:
    costs = [point.cost for point in points]
    return max(costs) > _SAME * min(costs)


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _form(
    results: ComparisonResults, cost: str, points: list[_Point], styles: Mapping[str, ArmStyle]
) -> dict[str, Any]:
    front = sorted(_front(points, results.direction == "min"), key=lambda point: point.cost)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines", "name": "front", "hoverinfo": "skip",
            "x": [point.cost for point in front], "y": [point.quality for point in front],
            "line": {"color": MUTED, "width": 1.2, "shape": "hv"}, "showlegend": len(front) > 1, "legendrank": 2000,
        }
    ]  # fmt: skip
    for point in points:
        data += _traces(point, styles[point.arm])
    costs = [point.cost for point in points]
    scale = "log" if max(costs) > _WIDE * min(costs) else "linear"
    return {
        "data": data,
        "layout": {
            "height": 440,
            "xaxis": {"title": {"text": _COSTS[cost][0]}, "type": scale, "rangemode": "normal"},
            "yaxis": {"title": {"text": axis_words(results, results.metric)}},
        },
    }


def _traces(point: _Point, style: ArmStyle) -> Iterator[dict[str, Any]]:
    shared = {"type": "scatter", "mode": "markers", "legendgroup": point.arm, "name": point.arm}
    yield {
        **shared, "showlegend": False, "marker": {"color": faint(style.colour, 0.35), "size": 6},
        "x": [cost for _, cost, _ in point.seeds], "y": [value for _, _, value in point.seeds],
        "customdata": [seed for seed, _, _ in point.seeds],
        "hovertemplate": "%{fullData.name}, seed %{customdata}<br>%{x:.4s}, %{y:.4g}<extra></extra>",
    }  # fmt: skip
    error = {}
    if point.interval is not None:
        low, high = point.interval
        ends = {"array": [high - point.quality], "arrayminus": [point.quality - low]}
        error = {"error_y": {"type": "data", "symmetric": False, "color": style.colour, "thickness": 1.8, **ends}}
    yield {
        **shared, **error, "x": [point.cost], "y": [point.quality],
        "marker": {"color": style.colour, "symbol": style.symbol, "size": 12},
        "hovertemplate": "%{fullData.name}<br>%{x:.4s}, %{y:.4g}<extra></extra>",
    }  # fmt: skip


def _front(points: Iterable[_Point], smaller_is_better: bool) -> list[_Point]:
    sign = 1 if smaller_is_better else -1
    candidates = list(points)
    return [
        point
        for point in candidates
        if not any(
            other.cost <= point.cost
            and sign * other.quality <= sign * point.quality
            and (other.cost, other.quality) != (point.cost, point.quality)
            for other in candidates
        )
    ]


_BAR, _AXIS, _TOP = 34, 64, 32
"""Pixels of an arm's bar, of an axis with its title, and above a panel."""
_ENERGY = (
    " Energy is that of whole processor packages (RAPL) or GPU boards (NVML), other programs on them included, as "
    "their counters measure it."
)
_MEASURES: Mapping[str, Callable[[RunRecord], float | None]] = {
    "tokens per second": lambda record: record.throughput.get("tokens_per_second"),
    "samples per second": lambda record: record.throughput.get("samples_per_second"),
    "joules per token": lambda record: record.throughput.get("joules_per_token"),
    "peak memory in MiB": lambda record: (record.throughput.get("peak_memory_bytes") or 0) / 2**20,
}


def speed_section(results: ComparisonResults) -> Section | None:
    panels = {name: _measured(results, of) for name, of in _MEASURES.items()}
    if panels["tokens per second"]:
        del panels["samples per second"]
    known = {name: panel for name, panel in panels.items() if panel}
    if not known:
        return None
    caption = (
        "Speed and memory of training. Bars are means over the seeds that finished, dots single seeds. Both depend "
        "on this implementation, this device, and whatever else ran there; FLOPs above are counted, not measured."
        f"{_ENERGY if 'joules per token' in known else ''}"
    )
    return Section("Speed and memory", "speed", [figure(_speed_form(results, known), caption)])


def _measured(findings: ComparisonResults, of: Callable[[RunRecord], float | None]) -> dict[str, dict[int, float]]:
    """Return the measurements by arm and seed."""
    measured = {
        arm.name: {seed_of(record): value for record in arm.records if (value := of(record))} for arm in findings.arms
    }
    return {name: values for name, values in measured.items() if values}


def _speed_form(results: ComparisonResults, panels: Mapping[str, Mapping[str, Mapping[int, float]]]) -> dict[str, Any]:
    styles = styles_of(results)
    panel = _BAR * max(map(len, panels.values())) + _TOP
    height = len(panels) * (panel + _AXIS)
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"height": height, "showlegend": False, "margin": {"t": 0, "b": 0}, "bargap": 0.35}
    for number, (name, values_by_arm) in enumerate(panels.items()):
        suffix = "" if number == 0 else str(number + 1)
        top = 1 - (number * (panel + _AXIS) + _TOP) / height
        domain = [top - (panel - _TOP) / height, top]
        layout[f"xaxis{suffix}"] = {"title": {"text": name}, "anchor": f"y{suffix}", "rangemode": "tozero"}
        look: dict[str, Any] = {"ticks": "", "showgrid": False, "fixedrange": True, "tickfont": {"color": INK}}
        look |= {"tickvals": list(range(len(values_by_arm))), "ticktext": list(values_by_arm)}
        layout[f"yaxis{suffix}"] = {
            "domain": domain,
            "anchor": f"x{suffix}",
            "range": [len(values_by_arm) - 0.5, -0.5],
            **look,
        }
        for arm, values in values_by_arm.items():
            data += _bar(arm, values, styles[arm], suffix)
    return {"data": data, "layout": layout}


def _bar(arm: str, values: Mapping[int, float], style: ArmStyle, suffix: str) -> Iterator[dict[str, Any]]:
    axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
    edge = {"color": style.colour, "width": 1.4}
    yield {
        **axes, "type": "bar", "orientation": "h", "x": [fmean(values.values())], "y": [arm],
        "marker": {"color": faint(style.colour, 0.3), "line": edge}, "hovertemplate": "mean %{x:.4s}<extra></extra>",
    }  # fmt: skip
    yield {
        **axes, "type": "scatter", "mode": "markers", "x": list(values.values()), "y": [arm] * len(values),
        "customdata": list(values), "marker": {"color": style.colour, "size": 6},
        "hovertemplate": "seed %{customdata}: %{x:.4s}<extra></extra>",
    }  # fmt: skip
