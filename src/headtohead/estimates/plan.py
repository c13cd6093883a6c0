"""Plan a run on devices before it starts, and show the plan: what fits, how fast, how long, for how much."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.durations import duration
from headtohead.estimates.device_speed import DeviceSpeed, measure_cpu, speed_of
from headtohead.estimates.layouts import layouts
from headtohead.estimates.named_devices import parsed_devices
from headtohead.estimates.run_planner import PlannedLayout, RunPlanner
from headtohead.training.parallel.device_sheets import device_sheets
from headtohead.training.parallel.devices import threads

_SPARE = {"cuda": (0.05, 1.5 * 2**30), "cpu": (0.05, 0.5 * 2**30)}
"""The memory of a device that tensors cannot have: a share that is lost between them, and bytes of libraries and
messages."""


@dataclass(frozen=True)
class Plan:
    """A run on some devices, under every layout."""

    device: str
    """The name of the device that was planned for."""
    source: str
    """Whether rates were measured or are those of a data sheet."""
    devices: int
    """The number of devices."""
    usable_bytes: float
    """The bytes of one device that are left for tensors."""
    parameters: int
    """The number of the model's parameters."""
    flops_per_token: float
    """The training FLOPs of one token, by the ledger."""
    tokens: float
    """The tokens of the whole run, or its images."""
    steps: int
    """The optimizer steps of the whole run."""
    batch_rows: int
    """The rows of one step, over all devices."""
    layouts: tuple[PlannedLayout, ...]
    """The ways to lay the model out over the devices, each with its memory and hours."""
    unit: Literal["tokens", "images"] = "tokens"
    """The unit that `tokens` counts."""

    @property
    def best(self) -> PlannedLayout | None:
        """Return the fastest layout that fits, which is the cheapest too: all have the same devices."""
        return min((each for each in self.layouts if each.fits), key=lambda each: each.hours, default=None)

    @property
    def device_hours(self) -> float:
        """Return the hours of the fastest layout over all its devices; infinity where none fits."""
        return math.inf if self.best is None else self.best.hours * self.devices

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for --json."""
        best = self.best
        listed = [{**asdict(each), "fits": each.fits} for each in self.layouts]
        return {**asdict(self), "layouts": listed, "best": None if best is None else list(best.overrides)}


def plan(
    config: Mapping[str, Any],
    on: str,
    *,
    price: float | None = None,
    tokens: float | None = None,
    per_node: int | None = None,
) -> Plan:
    """Return a run's plan on devices such as "h100x8", or on this machine's processor: "cpu", "cpux2".

    `price` is of a device and hour. `tokens` replaces the length that the configuration gives the run.
    """
    name, count = parsed_devices(on)
    runs = RunPlanner(config, device_kind(name))
    return _plan_over(runs, _speed(name, runs), count, price=price, tokens=tokens, per_node=per_node)


def cheapest_plan(config: Mapping[str, object], on: str, *, price: float | None = None) -> Plan:
    """Return the plan over as many of some devices as take the fewest device hours, fewer of two that take as many:
    runs of a study stand side by side on the rest."""
    name, count = parsed_devices(on)
    runs = RunPlanner(config, device_kind(name))
    speed = _speed(name, runs)
    shares = [share for share in range(1, count + 1) if count % share == 0]
    plans = [_plan_over(runs, speed, share, price=price, out_of=count) for share in shares]
    return min(plans, key=lambda each: each.device_hours)


def device_kind(name: str) -> Literal["cpu", "cuda"]:
    return "cpu" if name == "cpu" else "cuda"


def _plan_over(
    runs: RunPlanner,
    speed: DeviceSpeed,
    count: int,
    *,
    price: float | None,
    tokens: float | None = None,
    per_node: int | None = None,
    out_of: int | None = None,
) -> Plan:
    """`out_of` is how many devices there are, of which a run on fewer leaves the others to other runs."""
    share, fixed = _SPARE[speed.kind]
    usable = speed.memory * (1 - share) / ((out_of or count) if speed.kind == "cpu" else 1) - fixed
    steps = runs.settings.max_steps if tokens is None else -int(-tokens // runs.tokens_per_step)
    node = per_node or min(count, speed.per_node)
    each_layout = layouts(count, node, offloads=speed.kind != "cpu")
    planned = tuple(runs.planned(layout, speed, usable, steps=steps, price=price) for layout in each_layout)
    totals = runs.costs.totals
    return Plan(
        device=speed.name,
        source=speed.source,
        devices=count,
        usable_bytes=usable,
        parameters=totals.parameters,
        flops_per_token=totals.training_flops_per_token,
        tokens=runs.tokens_per_step * steps,
        steps=steps,
        batch_rows=runs.batch.num_samples,
        layouts=planned,
        unit="tokens" if runs.batch.num_tokens else "images",
    )


def _speed(name: str, runs: RunPlanner) -> DeviceSpeed:
    if name != "cpu":
        return speed_of(device_sheets()[name])
    with threads(runs.settings.threads):
        dtype = runs.precision.on("cpu").dtype
        return measure_cpu(dtype=dtype if dtype != torch.float16 else torch.bfloat16)


_NAMES = {
    "single": "one device", "ddp": "copies", "full": "sharded", "grad_op": "sharded, no reshard", "hybrid": "hybrid",
}  # fmt: skip
_COLUMNS = (
    "layout", "recomputed", "weights", "gradients", "optimizer", "activations", "all", "micro-batch", "step s",
    "tokens/s", "MFU", "time", "cost",
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
        f"parameters, {plan.batch_rows} rows a step, {_short(plan.tokens)} {plan.unit} in {plan.steps:,} steps"
    )
    caption = "GiB of one device at the peak; micro-batch: rows read at once, of the most that fit"
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for name in _COLUMNS:
        table.add_column(
            name.replace("tokens", plan.unit), justify="left" if name in ("layout", "recomputed") else "right"
        )
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
        duration(3600 * each.hours),
        "-" if each.price is None else _money(each.price),
    )


def _name(each: PlannedLayout) -> str:
    parts = each.layout.tensor_parallel
    return _NAMES[each.layout.sharding] + (f", layers among {parts}" if parts > 1 else "")


def _conclusion(plan: Plan) -> str:
    best = plan.best
    if best is None:
        return "no layout fits: take more devices, larger ones, or a smaller model"
    words = " ".join(best.overrides) or "as it is"
    cost = "" if best.price is None else f", for {_money(best.price)}"
    if best.memory is not None and best.memory.host:
        cost += f", with {_gib(best.memory.host)} GiB of the processor's memory for each device"
    return f"the cheapest that fits, {duration(3600 * best.hours)}{cost}: {words}"


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / 2**30:.3g}"


def _money(cost: float) -> str:
    return "less than 0.01" if 0 < cost < 0.005 else f"{cost:,.2f}"


def _short(value: float) -> str:
    for size, unit in ((1e18, " E"), (1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


PlannedArm = tuple[Plan, int, float]
"""The plan of a whole run, the number of runs, and their length together as a number of whole runs."""


def show_arms(arms: Mapping[str, PlannedArm], devices: int) -> RenderableType:
    """Return the cheapest layout of every arm of a study on so many devices, with what all its runs take."""
    first = next(iter(arms.values()))[0]
    count = f"{devices} x " if devices > 1 else ""
    has_shorter = any(not math.isclose(runs, whole) for _, runs, whole in arms.values())
    table = Table(title=f"{count}{first.device} ({first.source})", title_justify="left")
    for name in (
        "arm", "runs", *(("in whole runs",) if has_shorter else ()), "parameters", "GiB", "tokens/s", "time a run",
        "devices a run", "device time", "cost", "layout",
    ):  # fmt: skip
        table.add_column(name, justify="left" if name in ("arm", "layout") else "right")
    for arm, (plan, runs, whole) in arms.items():
        length = (f"{whole:,.3g}",) if has_shorter else ()
        table.add_row(arm, str(runs), *length, f"{plan.parameters:,}", *_arm_cells(plan, whole))
    return Group(table, Text(_study_conclusion(arms, devices)))


def _arm_cells(plan: Plan, whole: float) -> tuple[str, ...]:
    best = plan.best
    if best is None or best.memory is None:
        return (*["-"] * 6, "none fits: take more devices, larger ones, or a smaller model")
    return (
        _gib(best.memory.total),
        _short(best.tokens_per_second),
        duration(3600 * best.hours),
        str(plan.devices),
        duration(3600 * whole * plan.device_hours),
        "-" if best.price is None else _money(whole * best.price),
        " ".join(best.overrides) or "as it is",
    )


def _study_conclusion(arms: Mapping[str, PlannedArm], devices: int) -> str:
    fitting = [(plan, whole) for plan, _, whole in arms.values() if plan.best is not None]
    device_hours = sum(whole * plan.device_hours for plan, whole in fitting)
    prices = [whole * plan.best.price for plan, whole in fitting if plan.best and plan.best.price is not None]
    left_out = "" if len(fitting) == len(arms) else f" without {len(arms) - len(fitting)} of {len(arms)} arms"
    hours = max([device_hours / devices, *(plan.device_hours / plan.devices for plan, _ in fitting)])
    side_by_side = f", at least {duration(3600 * hours)} with runs side by side" if devices > 1 else ""
    cost = f", for {_money(sum(prices))}" if prices else ""
    return f"all runs{left_out}: {duration(3600 * device_hours)} of a device{side_by_side}{cost}"
