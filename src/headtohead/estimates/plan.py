"""Plan a run on devices before it starts: what fits, how fast, how long, for how much."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from headtohead.config.errors import ConfigurationError, unknown
from headtohead.estimates.device_speed import DeviceSpeed, measure_cpu, speed_of, speeds
from headtohead.estimates.layouts import layouts
from headtohead.estimates.run_planner import PlannedLayout, RunPlanner
from headtohead.training.parallel.devices import device_sheets, threads

_SPARE = {"cuda": (0.05, 1.5 * 2**30), "cpu": (0.05, 0.5 * 2**30)}
"""The memory of a device that tensors cannot have: a share that is lost between them, and bytes of libraries and
messages."""


@dataclass(frozen=True)
class Plan:
    """A run on some devices, under every layout."""

    device: str
    source: str
    """Whether rates were measured or are those of a data sheet."""
    devices: int
    usable_bytes: float
    """The bytes of one device that are left for tensors."""
    parameters: int
    flops_per_token: float
    tokens: float
    """The tokens of the whole run."""
    steps: int
    batch_rows: int
    layouts: tuple[PlannedLayout, ...]

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


def parsed_devices(text: str) -> tuple[str, int]:
    """Return the name of a device and how many: "h100-sxm", "h100-sxm x 8" and "h100x8" are all understood."""
    known = speeds()
    aliases = {"h100": "h100-sxm", "a100": "a100-80gb", "here": "cpu"}
    word = text.lower().replace(" ", "").replace("_", "-")
    match = None if word in known or word in aliases else re.fullmatch(r"(.+?)x([1-9]\d{0,6})", word)
    name, count = (match[1], int(match[2])) if match else (word, 1)
    name = aliases.get(name, name)
    if name not in known:
        raise ConfigurationError(unknown(f"--on {text} names no device", name, list(known)))
    return name, count


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


def cheapest_plan(config: Mapping[str, Any], on: str, *, price: float | None = None) -> Plan:
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
    planned = tuple(runs.planned(layout, speed, usable, steps=steps, price=price) for layout in layouts(count, node))
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
    )


def _speed(name: str, runs: RunPlanner) -> DeviceSpeed:
    if name != "cpu":
        return speed_of(device_sheets()[name])
    with threads(runs.settings.threads):
        dtype = runs.precision.on("cpu").dtype
        return measure_cpu(dtype=dtype if dtype != torch.float16 else torch.bfloat16)
