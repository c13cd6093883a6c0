"""Show what the arms had in equal amounts, how that was achieved, and what differs as a consequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headtohead.comparison.arms import ArmCosts, costs_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report.number_format import UNKNOWN, with_minus
from headtohead.comparison.report.section_parts import (
    ArmName,
    Cell,
    Code,
    Column,
    ReportTable,
    ReportText,
    Section,
    SectionPart,
)
from headtohead.comparison.tables.run_table import count, energy, memory
from headtohead.durations import duration

_ALIKE = 0.02
_AMOUNTS = {
    "parameters": "parameters",
    "flops": "training FLOPs",
    "tokens": "tokens",
    "seconds": "time",
    "state_elements": "state",
    "peak_memory_bytes": "memory",
    "joules": "energy",
}


def section(results: ComparisonResults) -> Section | None:
    costs = {arm.name: costs_of(arm.records) for arm in results.arms if arm.records}
    parts: list[SectionPart] = []
    if results.baseline in costs and len(costs) > 1 and any(one != ArmCosts() for one in costs.values()):
        parts.append(_amounts(results, costs))
    if results.matching is not None:
        parts.append(_solution(results.matching) if _moved(results.matching) else _fitting(results.matching))
    if not parts:
        return None
    if results.budget:
        parts.insert(0, ReportText(f"Held equal: {results.budget.removeprefix('equal_').replace('_', ' ')}."))
    return Section("What was equal", "equal", parts)


def _amounts(results: ComparisonResults, costs: Mapping[str, ArmCosts]) -> ReportTable:
    first = costs[results.baseline]
    known = [axis for axis in _AMOUNTS if any(getattr(one, axis) is not None for one in costs.values())]
    rows: list[list[Cell]] = []
    for name in sorted(costs, key=lambda name: name != results.baseline):
        rows.append([ArmName(name), *(_amount(axis, costs[name], first) for axis in known)])
    caption = (
        f"What each arm used. Means over the runs that finished; in brackets the difference from {results.baseline}, "
        f"if it exceeds {100 * _ALIKE:.0f} %. {'Time, memory and energy' if 'joules' in known else 'Time and memory'} "
        "are measured, all else is counted."
    )
    return ReportTable([Column("arm"), *(Column(_AMOUNTS[axis], numeric=True) for axis in known)], rows, caption)


def _amount(axis: str, costs: ArmCosts, baseline: ArmCosts) -> str:
    value, other = getattr(costs, axis), getattr(baseline, axis)
    if value is None:
        return UNKNOWN
    units: dict[str, Callable[[float], str]] = {"seconds": duration, "peak_memory_bytes": memory, "joules": energy}
    apart = value / other - 1 if other else 0.0
    return units.get(axis, count)(value) + (f" ({_share(apart)})" if abs(apart) > _ALIKE else "")


def _moved(matching: Mapping[str, Any]) -> bool:
    return any(arm["overrides"] or arm["differs"] or not arm["met"] for arm in matching["arms"].values())


def _fitting(matching: Mapping[str, Any]) -> ReportText:
    figure = str(matching["budget"]["figure"]).replace("_", " ")
    return ReportText(
        f"All arms meet the budget as written: {figure} within {_tolerance(matching)} of {matching['baseline']}."
    )


def _tolerance(matching: Mapping[str, Any]) -> str:
    return f"{100 * matching['budget']['tolerance']:.3g} %"


def _solution(matching: Mapping[str, Any]) -> ReportTable:
    """Return the budget solver's solution as a table."""
    figure = str(matching["budget"]["figure"]).replace("_", " ")
    rows: list[list[Cell]] = []
    for name, arm in matching["arms"].items():
        differs = ", ".join(
            f"{key.replace('_', ' ').replace('flops', 'FLOPs')} × {ratio:.3g}" for key, ratio in arm["differs"].items()
        )
        moved: Cell = Code(" ".join(arm["overrides"])) if arm["overrides"] else "nothing"
        met = "yes" if arm["met"] else f"no: {arm['reason']}"
        rows.append([ArmName(name), moved, count(arm["achieved"]), _share(arm["residual"]), met, differs or "nothing"])
    columns = [
        Column("arm"), Column("changed to meet it"), Column(figure, numeric=True), Column("residual", numeric=True),
        Column("met"), Column("what therefore differs", wide=True),
    ]  # fmt: skip
    caption = (
        f"How the arms were matched. {figure.capitalize()} within {_tolerance(matching)} of {matching['baseline']}, "
        f"which has {count(matching['target'])}; differences are multiples of the baseline."
    )
    return ReportTable(columns, rows, caption)


def _share(value: float) -> str:
    return with_minus(f"{100 * value:+.2g} %").replace("+0 %", "0 %") if abs(value) < 1 else f"× {value + 1:.3g}"
