"""Plan how long the devices of one run wait for each other's numbers in a step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch

from headtohead.config.errors import ConfigurationError
from headtohead.estimates.device_speed import DeviceSpeed, measure_cpu, speed_of
from headtohead.estimates.layouts import layout_of
from headtohead.estimates.run_planner import RunPlanner
from headtohead.training.parallel.devices import device_name, sheet_of, threads


def message_seconds(config: Mapping[str, object], device: torch.device) -> float:
    """Return the seconds of messages that no arithmetic hides, in a step of a run over several devices like this."""
    runs, layout = RunPlanner(config, device.type), layout_of(config)
    speed = _cpu_speed(runs.settings.threads) if device.type == "cpu" else _gpu_speed(device)
    rows = -(-runs.batch.num_samples // layout.replicas // layout.accumulate)
    return runs.layout_costs.seconds(layout, rows, speed).exchanging


@cache
def _cpu_speed(count: int | None) -> DeviceSpeed:
    with threads(count):
        return measure_cpu()


def _gpu_speed(device: torch.device) -> DeviceSpeed:
    sheet = sheet_of(device_name(device))
    if sheet is None:
        raise ConfigurationError(
            f"no data sheet tells how fast several {device_name(device)} exchange numbers, so their steps cannot be "
            "timed: choose budget=equal_flops, or trainer.devices=1"
        )
    return speed_of(sheet)
