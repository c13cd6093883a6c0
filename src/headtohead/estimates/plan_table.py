"""A plan for the terminal: what fits, how fast, how long, for how much; the cheapest layout first."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.estimates.plan import Plan
from headtohead.estimates.run_planner import PlannedLayout

_NAMES = {
    "single": "one device", "ddp": "copies", "full": "sharded", "grad_op": "sharded, no reshard", "hybrid": "hybrid",
}  # fmt: skip
_COLUMNS = (
    "layout", "recomputed", "weights", "gradients", "optimizer", "activations", "all", "micro-batch", "step s",
    "tokens/s", "MFU", "hours", "cost",
)  # fmt: skip


def show_plan(plan: Plan) -> RenderableType:
    """Return the plan as tables and a sentence."""
    refused = sorted({(_name(each), each.reason) for each in plan.layouts if each.reason and each.memory is None})
    reasons = [Text(f"{name}: {reason}") for name, reason in refused]
    return Group(_table(plan), *reasons, Text(_conclusion(plan)))


def _table(plan: Plan) -> Table:
    count = f"{plan.devices} x " if plan.devices > 1 else ""
    title = (
        f"{count}{plan.device} ({plan.source}; {_gib(plan.usable_bytes)} GiB for tensors): {plan.parameters:,} "
        f"parameters, {plan.batch_rows} rows a step, {_short(plan.tokens)} tokens in {plan.steps:,} steps"
    )
    caption = "GiB of one device at the peak; micro-batch: rows read at once, of the most that fit"
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("layout", "recomputed") else "right")
    listed = [each for each in plan.layouts if each.memory is not None]
    for each in sorted(listed, key=lambda each: (not each.fits, each.hours)):
        table.add_row(*_cells(each), style="bold" if each is plan.best else "" if each.fits else "dim")
    return table


def _cells(each: PlannedLayout) -> tuple[str, ...]:
    memory, step = each.memory, each.step
    assert memory is not None
    sizes = (memory.weights, memory.gradients, memory.optimizer, memory.activations, memory.total)
    head = (_name(each), each.layout.recomputed, *map(_gib, sizes))
    if step is None:
        return (*head, "does not fit", *[""] * 5)
    return (
        *head,
        f"{each.rows} of {each.largest_rows}",
        f"{step.total:.3g}",
        _short(each.tokens_per_second),
        "-" if each.utilisation is None else f"{each.utilisation:.0%}",
        f"{each.hours:,.3g}" if each.hours < 1000 else f"{each.hours:,.0f}",
        "-" if each.price is None else f"{each.price:,.2f}",
    )


def _name(each: PlannedLayout) -> str:
    parts = each.layout.tensor_parallel
    return _NAMES[each.layout.sharding] + (f", layers among {parts}" if parts > 1 else "")


def _conclusion(plan: Plan) -> str:
    best = plan.best
    if best is None:
        return "no layout fits: take more devices, larger ones, or a smaller model"
    words = " ".join(best.overrides) or "as it is"
    cost = "" if best.price is None else f", for {best.price:,.2f}"
    return f"the cheapest that fits, {best.hours:,.3g} hours{cost}: {words}"


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / 2**30:.3g}"


def _short(value: float) -> str:
    for size, unit in ((1e18, " E"), (1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def show_arms(arms: Mapping[str, tuple[Plan, int]], devices: int) -> RenderableType:
    """Return the cheapest layout of every arm of a study on so many devices, with what all its runs take."""
    first = next(iter(arms.values()))[0]
    count = f"{devices} x " if devices > 1 else ""
    table = Table(title=f"{count}{first.device} ({first.source})", title_justify="left")
    for name in (
        "arm", "runs", "parameters", "GiB", "tokens/s", "hours a run", "devices a run", "device hours", "cost",
        "layout",
    ):  # fmt: skip
        table.add_column(name, justify="left" if name in ("arm", "layout") else "right")
    for arm, (plan, runs) in arms.items():
        table.add_row(arm, str(runs), f"{plan.parameters:,}", *_arm_cells(plan, runs))
    return Group(table, Text(_study_conclusion(arms, devices)))


def _arm_cells(plan: Plan, runs: int) -> tuple[str, ...]:
    best = plan.best
    if best is None or best.memory is None:
        return (*["-"] * 6, "none fits: take more devices, larger ones, or a smaller model")
    return (
        _gib(best.memory.total),
        _short(best.tokens_per_second),
        f"{best.hours:,.3g}",
        str(plan.devices),
        f"{runs * plan.device_hours:,.3g}",
        "-" if best.price is None else f"{runs * best.price:,.2f}",
        " ".join(best.overrides) or "as it is",
    )


def _study_conclusion(arms: Mapping[str, tuple[Plan, int]], devices: int) -> str:
    fitting = [(plan, runs) for plan, runs in arms.values() if plan.best is not None]
    device_hours = sum(runs * plan.device_hours for plan, runs in fitting)
    prices = [runs * plan.best.price for plan, runs in fitting if plan.best and plan.best.price is not None]
    left_out = "" if len(fitting) == len(arms) else f" without {len(arms) - len(fitting)} of {len(arms)} arms"
    hours = max([device_hours / devices, *(plan.device_hours / plan.devices for plan, _ in fitting)])
    side_by_side = f", at least {hours:,.3g} hours with runs side by side" if devices > 1 else ""
    cost = f"; {sum(prices):,.2f}" if prices else ""
    return f"all runs{left_out}: {device_hours:,.3g} device hours{side_by_side}{cost}"
