"""The panels of a page of W&B in four sections: quality, cost, attention, system."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from headtohead.metrics import metric_named
from headtohead.wandb_client.addresses import WandbError
from headtohead.wandb_client.runs_as_records import PAGE

_HOW = "runs of h2h train arrive there while you are logged in, and h2h sync uploads those that were offline"
_FIRST = ("validation/loss", "train/loss")


@dataclass(frozen=True)
class LoggedKeys:
    """Names in their order on the page."""

    numbers: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()

    def results(self, *stages: str) -> list[str]:
        """Return the results of these stages, as train, validation or test, in the given direction; losses come
        first."""
        named = {name: metric_named(name) for name in self.numbers if name.partition("/")[0] in stages}
        names = [name for name, metric in named.items() if metric is not None and metric.direction is not None]
        return sorted(names, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))

    def under(self, *parts: str) -> list[str]:
        return [name for name in self.numbers if name.startswith(parts)]

    def tests(self) -> list[str]:
        """Rows so many times as long have a stage of their own, such as test_2x."""
        return self.results(*{name.partition("/")[0] for name in self.numbers if name.startswith("test")})


def keys_in_summaries(summaries: Iterable[Mapping[str, object]]) -> LoggedKeys:
    summary_values: dict[str, Any] = {name: value for summary in summaries for name, value in summary.items()}
    numbers = [
        name for name, value in summary_values.items() if isinstance(value, int | float) and not name.startswith("_")
    ]
    pictures = [
        name
        for name, value in summary_values.items()
        if isinstance(value, Mapping) and value.get("_type") == "image-file"
    ]
    return LoggedKeys(tuple(sorted(numbers)), tuple(sorted(pictures, key=_by_layer)))


def keys_in_project(api: Any, path: str, filters: Mapping[str, str]) -> LoggedKeys:
    """Return the keys of the newest page of runs; a project without runs is refused, since nothing could be shown."""
    runs = api.runs(path, filters=dict(filters), order="-created_at", per_page=PAGE, lazy=False)
    try:
        newest = list(islice(runs, PAGE))
    except ValueError:  # the client's word for a project that is not there
        raise WandbError(f"W&B has no project {path}: {_HOW}") from None
    if not newest:
        which = f" with {' and '.join(f'{name} {value}' for name, value in filters.items())}" if filters else ""
        raise WandbError(f"{path} holds no runs{which}: {_HOW}")
    return keys_in_summaries(run.summary_metrics for run in newest)


def _by_layer(name: str) -> tuple[str, ...]:
    """Layer 10 after layer 9."""
    return tuple(f"{int(part):06d}" if part.isdecimal() else part for part in name.replace("/", ".").split("."))


STEP = "trainer/global_step"
_OTHER_AXES = {"progress/tokens": "tokens", "progress/flops": "training FLOPs", "progress/seconds": "seconds"}
_SPEEDS = (
    "throughput/tokens_per_second",
    "throughput/samples_per_second",
    "throughput/step_seconds",
    "throughput/data_wait_share",
    "throughput/flops_per_second",
    "throughput/mfu",
    "throughput/joules_per_token",
    "throughput/watts",
)
_PRICES = {"costs/parameters": "parameters", "progress/flops": "training FLOPs", "throughput/joules": "joules"}
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


def panels_for(keys: LoggedKeys) -> dict[str, list[Any]]:
    """Return the panels by section, without those that no run has numbers for; W&B itself logs those of the machine."""
    sections: Mapping[str, Callable[[LoggedKeys], list[Any]]] = {
        "quality": _quality,
        "cost": _cost,
        "attention": _attention,
        "system": _system,
    }
    return {name: made for name, make in sections.items() if (made := make(keys))}


def main_result(keys: LoggedKeys) -> str | None:
    """That the axes are drawn for: the validation's loss where there is one."""
    return next(iter(keys.results("validation")), None)


def _quality(keys: LoggedKeys) -> list[Any]:
    from wandb_workspaces.reports import v2 as wr

    main = main_result(keys)
    curves = [_line(name) for name in keys.results("validation", "train")]
    axes = [
        wr.LinePlot(title=f"{main} by {words}", x=axis, y=[main], log_x=axis == "progress/flops" or None)
        for axis, words in _OTHER_AXES.items()
        if main is not None and axis in keys.numbers
    ]
    bars = [_bars(name) for name in (*keys.tests(), *keys.under("min/validation/", "max/validation/"))]
    pictures = [_pictures(name) for name in keys.pictures if not name.startswith(_MAPS)]
    training = [_line("train/learning_rate")] if "train/learning_rate" in keys.numbers else []
    norms = [_pattern("gradient norms", "gradient_norm/.*")] if keys.under("gradient_norm/") else []
    return [*curves, *axes, *bars, *pictures, *training, *norms]


def _cost(keys: LoggedKeys) -> list[Any]:
    from wandb_workspaces.reports import v2 as wr
    from wandb_workspaces.reports.v2 import SummaryMetric

    main = main_result(keys)
    prices = [
        wr.ScatterPlot(
            title=f"{main} and {words}", x=SummaryMetric(price), y=SummaryMetric(main), log_x=True, running_ymin=True
        )
        for price, words in _PRICES.items()
        if main is not None and price in keys.numbers
    ]
    speeds = [_line(name) for name in _SPEEDS if name in keys.numbers]
    return [*prices, *speeds, *(_bars(name) for name in _COSTS if name in keys.numbers)]


def _attention(keys: LoggedKeys) -> list[Any]:
    """Return a browser for each layer, runs side by side with a slider over the steps, and two statistics of every
    head."""
    maps = [_pictures(name, gallery_axis="run") for name in keys.pictures if name.startswith(_MAPS)]
    statistics = [
        _pattern(words, f"{part}.*")
        for part, words in (("attention_entropy/", "entropy of heads"), ("attention_distance/", "distance of heads"))
        if keys.under(part)
    ]
    return [*maps, *statistics]


def _system(keys: LoggedKeys) -> list[Any]:
    from wandb_workspaces.reports import v2 as wr

    peak = "throughput/peak_memory_bytes"
    machine = [wr.LinePlot(title=words, x="RelativeTime(Process)", y=names) for words, names in _MACHINE.items()]
    return [*([_line(peak)] if peak in keys.numbers else []), *machine]


def _line(name: str) -> Any:
    from wandb_workspaces.reports import v2 as wr

    return wr.LinePlot(title=name, x=STEP, y=[name])


def _bars(name: str) -> Any:
    from wandb_workspaces.reports import v2 as wr

    return wr.BarPlot(title=name, metrics=[name])


def _pattern(title: str, names: str) -> Any:
    from wandb_workspaces.reports import v2 as wr

    return wr.LinePlot(title=title, x=STEP, metric_regex=names)


def _pictures(name: str, gallery_axis: Literal["run"] | None = None) -> Any:
    from wandb_workspaces.reports import v2 as wr

    return wr.MediaBrowser(title=name, media_keys=[name], num_columns=2, gallery_axis=gallery_axis)
