"""A benchmark from its configuration to its findings, and their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from headtohead.config.build import check_fits
from headtohead.config.instantiate import make
from headtohead.config.run_config import RunConfig
from headtohead.diagnostics.bench.benchmark_plan import BenchPlan, Measure
from headtohead.diagnostics.bench.benchmark_results import BenchmarkResults
from headtohead.diagnostics.bench.case_measurement import CaseMeasurement
from headtohead.diagnostics.bench.case_sweep import Report, sweep
from headtohead.files.atomic_write import replace_figure, replace_text
from headtohead.records.run_folder import new_id
from headtohead.training.parallel.devices import describe, threads

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bench(config: Mapping[str, Any], *, report: Report | None = None) -> BenchmarkResults:
    """Measures all that the plan asks for; `report` hears of each case as it begins."""
    plan = plan_of(config)
    check_fits(config)
    with threads(RunConfig(config).threads):
        on_gpu = RunConfig(config).accelerator != "cpu" and torch.cuda.is_available()
        device = describe(torch.device("cuda" if on_gpu else "cpu"), count=1)
    measurements = sweep({key: value for key, value in config.items() if key != "bench"}, plan, report=report)
    return BenchmarkResults(plan, device, config, tuple(measurements))


def plan_of(config: Mapping[str, Any]) -> BenchPlan:
    plan: BenchPlan = make(config["bench"])
    return plan


def save(results: BenchmarkResults, output_dir: Path) -> Path:
    """Save bench.json and bench.png in a new folder, and return it."""
    folder = output_dir / "bench" / new_id(str(RunConfig(results.config).name))
    folder.mkdir(parents=True)
    replace_text(folder / "bench.json", json.dumps(results.to_dict(), indent=2) + "\n")
    plot_benchmark(results, folder / "bench.png")
    return folder


_MARKERS = "osD^vP*X"


def plot_benchmark(results: BenchmarkResults, path: Path) -> None:
    """Plot two panels for each measure: seconds and bytes."""
    from matplotlib.figure import Figure

    measures: list[Measure] = list(dict.fromkeys(measure for measure, _ in results.kinds()))
    figure = Figure(figsize=(11, 3.8 * len(measures)), layout="constrained")
    rows: Any = figure.subplots(len(measures), 2, squeeze=False)
    for (time, memory), measure in zip(rows, measures, strict=True):
        _panel(time, results, measure, "seconds")
        _panel(memory, results, measure, "peak_bytes")
    name = results.device.get("name", "")
    figure.suptitle(f"{results.config.get('name', '')} on {name}", fontsize=11)
    replace_figure(path, figure, dpi=130)


def _panel(axes: Axes, results: BenchmarkResults, measure: Measure, field: str) -> None:
    is_time = field == "seconds"
    variants = [variant for kind, variant in results.kinds() if kind == measure]
    lengths: set[int] = set()
    for index, variant in enumerate(variants):
        points = [m for m in results.of(measure, variant) if m.status == "measured"]
        growth = results.growth(measure, variant)
        exponent = growth.time if is_time else growth.memory
        fitted = "" if exponent is None else f"  ~ length^{exponent:.2f}"
        axes.plot(
            [m.length for m in points],
            [getattr(m, field) / (1 if is_time else 2**20) for m in points],
            marker=_MARKERS[index % len(_MARKERS)],
            label=results.label(variant) + fitted,
            linewidth=1.6,
            markersize=5,
        )
        lengths |= {m.length for m in points}
    if lengths:  # nothing at all may have been measured
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
    axes.set_xticks(sorted(lengths), [f"{length:,}" for length in sorted(lengths)])
    axes.minorticks_off()
    axes.set_xlabel("length in tokens")
    axes.set_ylabel("seconds" if is_time else "peak memory, MiB")
    axes.set_title(f"{measure}: {'time' if is_time else 'memory'}", fontsize=10)
    axes.grid(True, which="major", alpha=0.3)
    if is_time and lengths:
        _guides(axes, results.of(measure, variants[0]))
    axes.legend(fontsize=7.5, frameon=False)


def _guides(axes: Axes, base: list[CaseMeasurement]) -> None:
    """Thin lines of slope 1 and 2 from the base's first point, to see the growth against."""
    points = [m for m in base if m.status == "measured"]
    if len(points) < 2:
        return
    first, last = points[0], points[-1]
    for slope in (1, 2):
        end = first.seconds * (last.length / first.length) ** slope
        axes.plot([first.length, last.length], [first.seconds, end], color="grey", linewidth=0.8, linestyle=":")
        axes.annotate(f"length^{slope}", (last.length, end), fontsize=7, color="grey", ha="right", va="bottom")
