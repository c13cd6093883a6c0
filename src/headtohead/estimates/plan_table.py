"""A plan for the terminal: what fits, how fast, how long, for how much; the cheapest layout first."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.estimates.plan import Plan, PlannedLayout

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
    for size, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def show_arms(arms: Mapping[str, tuple[Plan, int]]) -> RenderableType:
    """Return the best layout of every arm of a study, with what all its runs take."""
    first = next(iter(arms.values()))[0]
    count = f"{first.devices} x " if first.devices > 1 else ""
    table = Table(title=f"{count}{first.device} ({first.source}), one run at a time", title_justify="left")
    for name in ("arm", "runs", "parameters", "GiB", "tokens/s", "hours a run", "hours", "cost", "layout"):
        table.add_column(name, justify="left" if name in ("arm", "layout") else "right")
    hours = cost = 0.0
    for arm, (plan, runs) in arms.items():
        best = plan.best
        if best is None or best.memory is None:
            table.add_row(arm, str(runs), f"{plan.parameters:,}", *["-"] * 5, "none fits")
            continue
        hours, cost = hours + runs * best.hours, cost + runs * (best.price or 0.0)
        speed, each = _short(best.tokens_per_second), f"{best.hours:,.3g}"
        price = "-" if best.price is None else f"{runs * best.price:,.2f}"
        words = " ".join(best.overrides) or "as it is"
        table.add_row(
            arm, str(runs), f"{plan.parameters:,}", _gib(best.memory.total), speed, each, f"{runs * best.hours:,.3g}",
            price, words,
        )  # fmt: skip
    return Group(table, Text(f"all runs: {hours:,.3g} hours" + (f", {cost:,.2f}" if cost else "")))
