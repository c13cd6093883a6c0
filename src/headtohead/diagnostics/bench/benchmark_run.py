"""A benchmark from its configuration to its findings, and their files: all cases of a plan, measured one after another,
each in a fresh process, every round in turn."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from headtohead.config.build import check_fits
from headtohead.config.instantiate import make
from headtohead.config.run_config import RunConfig
from headtohead.diagnostics.bench.benchmark_plan import BenchmarkCase, BenchPlan, Measure, Variant
from headtohead.diagnostics.bench.benchmark_results import BenchmarkResults
from headtohead.diagnostics.bench.case_measurement import CaseMeasurement, Status, measure
from headtohead.files.atomic_write import replace_figure, replace_text
from headtohead.records.run_folder import new_id
from headtohead.training.memory import free_memory
from headtohead.training.parallel.devices import describe, threads
from headtohead.training.run_outcome import is_out_of_memory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PRELOADED = ["headtohead.diagnostics.bench.case_measurement"]
INTERRUPTED = "interrupted"
"""The reason of what was not measured when a sweep was stopped."""
Report = Callable[[BenchmarkCase], None]


def sweep(config: Mapping[str, object], plan: BenchPlan, *, report: Report | None = None) -> list[CaseMeasurement]:
    """Return one measurement for each case: medians over the rounds, the largest peak. `report` hears of each case
    begun.

    Interrupted, it gives what it has; the rest counts as left out.
    """
    measurements: dict[BenchmarkCase, list[CaseMeasurement]] = {case: [] for case in plan.cases()}
    try:
        _measure_all(config, plan, measurements, report)
    except KeyboardInterrupt:
        for case, rounds in measurements.items():
            if not rounds:
                rounds.append(CaseMeasurement(case, "left_out", INTERRUPTED, length=case.length))
    return [_together(rounds) for rounds in measurements.values()]


def _measure_all(
    config: Mapping[str, Any],
    plan: BenchPlan,
    measurements: dict[BenchmarkCase, list[CaseMeasurement]],
    report: Report | None,
) -> None:
    guard = MemoryGuard(plan.memory_share)
    device = torch.device("cuda" if _on_gpu(config) else "cpu")
    for _ in range(plan.rounds):
        for case, rounds in measurements.items():
            if report is not None:
                report(case)
            if not rounds or rounds[0].status == "measured":
                rounds.append(_tried(config, case, plan.seconds, guard, device))


def _tried(
    config: Mapping[str, Any], case: BenchmarkCase, seconds: float, guard: MemoryGuard, device: torch.device
) -> CaseMeasurement:
    reason = guard.refusal(case, free_memory(device))
    if reason is not None:
        guard.end(case)
        return CaseMeasurement(case, "left_out", reason, length=case.length)
    result = _in_a_process(config, case, seconds)
    if result.status == "measured":
        guard.learn(case, result.peak_bytes)
    elif result.status == "out_of_memory":
        guard.end(case)
    return result


def _on_gpu(config: Mapping[str, object]) -> bool:
    return RunConfig(config).accelerator != "cpu" and torch.cuda.is_available()


def _together(rounds: list[CaseMeasurement]) -> CaseMeasurement:
    good = [measurement for measurement in rounds if measurement.status == "measured"]
    if not good:
        return rounds[0]
    return replace(
        good[0],
        seconds=median(measurement.seconds for measurement in good),
        peak_bytes=max(measurement.peak_bytes for measurement in good),
    )


def _in_a_process(config: Mapping[str, object], case: BenchmarkCase, seconds: float) -> CaseMeasurement:
    """A server that has imported everything forks: a process costs a moment, and shares nothing it could hurt."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, dict(config), case, seconds), daemon=True)
    process.start()
    theirs.close()
    try:
        result: CaseMeasurement = ours.recv()
    except EOFError:
        process.join()
        status: Status = "out_of_memory" if died_of_memory(process.exitcode) else "failed"
        return CaseMeasurement(case, status, f"the process ended with {process.exitcode}", length=case.length)
    finally:
        ours.close()
        process.join(timeout=10)
        process.kill()
    return result


def _work(pipe: Connection, config: Mapping[str, object], case: BenchmarkCase, seconds: float) -> None:
    pipe.send(_measured(config, case, seconds))
    pipe.close()


def _measured(config: Mapping[str, object], case: BenchmarkCase, seconds: float) -> CaseMeasurement:
    """A case that cannot be measured is a result too."""
    try:
        return measure(config, case, seconds=seconds)
    except Exception as error:
        words = " ".join(str(error).split())
        status: Status = "out_of_memory" if is_out_of_memory(error) else "failed"
        return CaseMeasurement(case, status, f"{type(error).__name__}: {words}"[:500], length=case.length)


_STEEPEST, _FLATTEST = 2.0, 1.0
_MARGIN = 1.1


@dataclass
class MemoryGuard:
    """Remembers the peaks of every kind of case by length."""

    share: float
    peaks: dict[tuple[Measure, Variant], dict[int, int]] = field(default_factory=dict)
    ended: dict[tuple[Measure, Variant], int] = field(default_factory=dict)
    """The length at which a kind ran out of memory or was left out."""

    def learn(self, case: BenchmarkCase, peak_bytes: int) -> None:
        known = self.peaks.setdefault((case.measure, case.variant), {})
        known[case.length] = max(peak_bytes, known.get(case.length, 0))

    def end(self, case: BenchmarkCase) -> None:
        kind = (case.measure, case.variant)
        self.ended[kind] = min(case.length, self.ended.get(kind, case.length))

    def refusal(self, case: BenchmarkCase, free: int) -> str | None:
        """Return why this case should not be tried."""
        kind = (case.measure, case.variant)
        if case.length >= self.ended.get(kind, case.length + 1):
            return f"memory ran out at length {self.ended[kind]}"
        expected = self.expected(case)
        if expected is not None and expected > self.share * free:
            return f"expected to take {expected / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free"
        return None

    def expected(self, case: BenchmarkCase) -> int | None:
        """Peak memory as it grew between the last two lengths: at least in proportion, at most by the square."""
        known = self.peaks.get((case.measure, case.variant), {})
        if case.length in known:
            return known[case.length]
        shorter = sorted(length for length in known if length < case.length and known[length] > 0)
        if not shorter:
            return None
        last = shorter[-1]
        slope = _STEEPEST
        if len(shorter) > 1:
            before = shorter[-2]
            slope = math.log(known[last] / known[before]) / math.log(last / before)
        growth = (case.length / last) ** min(max(slope, _FLATTEST), _STEEPEST)
        return int(_MARGIN * known[last] * growth)


def died_of_memory(exit_code: int | None) -> bool:
    """The kernel's killer sends a signal that leaves no word."""
    return exit_code == -9 and os.name == "posix"


def bench(config: Mapping[str, object], *, report: Report | None = None) -> BenchmarkResults:
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

    measures: list[Measure] = list(dict.fromkeys(kind for kind, _ in results.kinds()))
    figure = Figure(figsize=(11, 3.8 * len(measures)), layout="constrained")
    rows: Any = figure.subplots(len(measures), 2, squeeze=False)
    for (time, memory), kind in zip(rows, measures, strict=True):
        _panel(time, results, kind, "seconds")
        _panel(memory, results, kind, "peak_bytes")
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
