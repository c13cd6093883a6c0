"""What the arms had in equal amounts, what was done to make it so, and what therefore differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headtohead.comparing.arms import Costs, costs_of
from headtohead.comparing.findings import Findings
from headtohead.comparing.report.parts import ArmName, Cell, Code, Column, Part, Section, Table, Text
from headtohead.comparing.report.words import UNKNOWN, duration
from headtohead.comparing.table import count, memory

_ALIKE = 0.02
_AMOUNTS = {
    "parameters": "parameters",
    "flops": "training FLOPs",
    "tokens": "tokens",
    "seconds": "time",
    "state_elements": "state",
    "peak_memory_bytes": "memory",
}


def section(findings: Findings) -> Section | None:
    costs = {arm.name: costs_of(arm.records) for arm in findings.arms if arm.records}
    parts: list[Part] = []
    if findings.baseline in costs and len(costs) > 1 and any(one != Costs() for one in costs.values()):
        parts.append(_amounts(findings, costs))
    if findings.matching is not None:
        parts.append(_solution(findings.matching) if _moved(findings.matching) else _fitting(findings.matching))
    if not parts:
        return None
    if findings.budget:
        parts.insert(0, Text(f"Held equal: {findings.budget.removeprefix('equal_').replace('_', ' ')}."))
    return Section("What was equal", "equal", parts)


def _amounts(findings: Findings, costs: Mapping[str, Costs]) -> Table:
    first = costs[findings.baseline]
    known = [axis for axis in _AMOUNTS if any(getattr(one, axis) is not None for one in costs.values())]
    rows: list[list[Cell]] = []
    for name in sorted(costs, key=lambda name: name != findings.baseline):
        rows.append([ArmName(name), *(_amount(axis, costs[name], first) for axis in known)])
    caption = (
        "What a run of each arm had. Means over the runs that finished; in brackets what it had more or less than "
        f"{findings.baseline}, where that is beyond {100 * _ALIKE:.0f} %. Time and memory are measured, all "
        "else is counted."
    )
    return Table([Column("arm"), *(Column(_AMOUNTS[axis], numeric=True) for axis in known)], rows, caption)


def _amount(axis: str, costs: Costs, baseline: Costs) -> str:
    value, other = getattr(costs, axis), getattr(baseline, axis)
    if value is None:
        return UNKNOWN
    show = {"seconds": duration, "peak_memory_bytes": memory}.get(axis, count)
    apart = value / other - 1 if other else 0.0
    return show(value) + (f" ({_share(apart)})" if abs(apart) > _ALIKE else "")


def _moved(matching: Mapping[str, Any]) -> bool:
    return any(arm["overrides"] or arm["differs"] or not arm["met"] for arm in matching["arms"].values())


def _fitting(matching: Mapping[str, Any]) -> Text:
    figure = str(matching["budget"]["figure"]).replace("_", " ")
    return Text(f"All arms fit as they are written: {figure} within {_tolerance(matching)} of {matching['baseline']}.")


def _tolerance(matching: Mapping[str, Any]) -> str:
    return f"{100 * matching['budget']['tolerance']:.3g} %"


def _solution(matching: Mapping[str, Any]) -> Table:
    """As the solver of budgets left it."""
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
        Column("arm"), Column("moved to meet it"), Column(figure, numeric=True), Column("residual", numeric=True),
        Column("met"), Column("what therefore differs", wide=True),
    ]  # fmt: skip
    caption = (
        f"How the arms were matched. {figure.capitalize()} within {_tolerance(matching)} of {matching['baseline']}, "
        f"which has {count(matching['target'])}; what differs is told as a multiple of the baseline's."
    )
    return Table(columns, rows, caption)


def _share(value: float) -> str:
    return f"{100 * value:+.2g} %".replace("-", "−").replace("+0 %", "0 %") if abs(value) < 1 else f"× {value + 1:.3g}"
