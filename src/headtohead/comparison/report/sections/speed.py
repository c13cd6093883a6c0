"""Show how fast each arm trained and how much memory it took, as measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from statistics import fmean
from typing import Any

from headtohead.comparison.comparability import seed_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report.arm_styles import INK, ArmStyle, faint, styles_of
from headtohead.comparison.report.section_parts import Section, figure
from headtohead.records.record import RunRecord

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


def section(results: ComparisonResults) -> Section | None:
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
    return Section("Speed and memory", "speed", [figure(_form(results, known), caption)])


def _measured(findings: ComparisonResults, of: Callable[[RunRecord], float | None]) -> dict[str, dict[int, float]]:
    """Return the measurements by arm and seed."""
    measured = {
        arm.name: {seed_of(record): value for record in arm.records if (value := of(record))} for arm in findings.arms
    }
    return {name: values for name, values in measured.items() if values}


def _form(results: ComparisonResults, panels: Mapping[str, Mapping[str, Mapping[int, float]]]) -> dict[str, Any]:
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
