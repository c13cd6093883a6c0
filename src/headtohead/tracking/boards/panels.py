"""The panels of a page of W&B in four sections: quality, cost, attention, system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headtohead.tracking.boards.told import Told

STEP = "trainer/global_step"
_OTHER_AXES = {"progress/tokens": "tokens", "progress/flops": "training FLOPs", "progress/seconds": "seconds"}
_SPEEDS = (
    "throughput/tokens_per_second",
    "throughput/samples_per_second",
    "throughput/step_seconds",
    "throughput/data_wait_share",
    "throughput/flops_per_second",
    "throughput/mfu",
)
_COSTS = (
    "costs/parameters",
    "costs/training_flops_per_token",
    "costs/training_flops_per_sample",
    "costs/state_elements",
    "costs/activation_bytes",
)
_MAPS = "attention/"
_DEVICES = range(8)
_MACHINE = {
    "processor": ["system/cpu"],
    "memory": ["system/memory_percent", "system/proc.memory.percent"],
    "GPU": [f"system/gpu.{device}.gpu" for device in _DEVICES],
    "GPU memory": [f"system/gpu.{device}.memoryAllocated" for device in _DEVICES],
    "GPU power": [f"system/gpu.{device}.powerWatts" for device in _DEVICES],
}
"""W&B's names for what its client measures."""


def panels_for(told: Told) -> dict[str, list[Any]]:
    """By section; a panel of numbers that no run has told is left out, those of the machine come with W&B itself."""
    sections: Mapping[str, Callable[[Told], list[Any]]] = {
        "quality": _quality,
        "cost": _cost,
        "attention": _attention,
        "system": _system,
    }
    return {name: made for name, make in sections.items() if (made := make(told))}


def main_result(told: Told) -> str | None:
    """That the axes are drawn for: the validation's loss where there is one."""
    return next(iter(told.results("validation")), None)


def _quality(told: Told) -> list[Any]:
    from wandb_workspaces.reports import v2 as wr

    main = main_result(told)
    curves = [_line(name) for name in told.results("validation", "train")]
    axes = [
        wr.LinePlot(title=f"{main} by {words}", x=axis, y=[main], log_x=axis == "progress/flops" or None)
        for axis, words in _OTHER_AXES.items()
        if main is not None and axis in told.numbers
    ]
    bars = [_bars(name) for name in (*told.tests(), *told.under("min/validation/", "max/validation/"))]
    pictures = [_pictures(name) for name in told.pictures if not name.startswith(_MAPS)]
    training = [_line("train/learning_rate")] if "train/learning_rate" in told.numbers else []
    norms = [_pattern("gradient norms", "gradient_norm/.*")] if told.under("gradient_norm/") else []
    return [*curves, *axes, *bars, *pictures, *training, *norms]


def _cost(told: Told) -> list[Any]:
    from wandb_workspaces.reports import v2 as wr
    from wandb_workspaces.reports.v2 import SummaryMetric

    main = main_result(told)
    prices = [
        wr.ScatterPlot(
            title=f"{main} and {words}", x=SummaryMetric(price), y=SummaryMetric(main), log_x=True, running_ymin=True
        )
        for price, words in (("costs/parameters", "parameters"), ("progress/flops", "training FLOPs"))
        if main is not None and price in told.numbers
    ]
    speeds = [_line(name) for name in _SPEEDS if name in told.numbers]
    return [*prices, *speeds, *(_bars(name) for name in _COSTS if name in told.numbers)]


def _attention(told: Told) -> list[Any]:
    """A browser for each layer, and two statistics of every head."""
    maps = [_pictures(name) for name in told.pictures if name.startswith(_MAPS)]
    statistics = [
        _pattern(words, f"{part}.*")
        for part, words in (("attention_entropy/", "entropy of heads"), ("attention_distance/", "distance of heads"))
        if told.under(part)
    ]
    return [*maps, *statistics]


def _system(told: Told) -> list[Any]:
    from wandb_workspaces.reports import v2 as wr

    peak = "throughput/peak_memory_bytes"
    machine = [wr.LinePlot(title=words, x="RelativeTime(Process)", y=names) for words, names in _MACHINE.items()]
    return [*([_line(peak)] if peak in told.numbers else []), *machine]


def _line(name: str) -> Any:
    from wandb_workspaces.reports import v2 as wr

    return wr.LinePlot(title=name, x=STEP, y=[name])


def _bars(name: str) -> Any:
    from wandb_workspaces.reports import v2 as wr

    return wr.BarPlot(title=name, metrics=[name])


def _pattern(title: str, names: str) -> Any:
    from wandb_workspaces.reports import v2 as wr

    return wr.LinePlot(title=title, x=STEP, metric_regex=names)


def _pictures(name: str) -> Any:
    from wandb_workspaces.reports import v2 as wr

    return wr.MediaBrowser(title=name, media_keys=[name], num_columns=2)
