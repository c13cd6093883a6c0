"""Evaluate a benchmark, how time grows with length and what each variant saves, and show it on the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table

from headtohead.diagnostics.bench.benchmark_plan import BenchPlan, Measure, Variant
from headtohead.diagnostics.bench.case_measurement import CaseMeasurement
from headtohead.diagnostics.inspection import memory
from headtohead.durations import duration


@dataclass(frozen=True)
class CostGrowth:
    """Exponents of a power law in length, by least squares on logarithms; None with fewer than two lengths."""

    time: float | None
    """The exponent of time over all lengths."""
    time_at_the_end: float | None
    """The exponent of time between the two longest: where a constant part no longer hides the growth."""
    memory: float | None
    memory_at_the_end: float | None
    flops: float | None
    """The exponent of the declared FLOPs over the same lengths: what the mathematics asks for."""


@dataclass(frozen=True)
class Saving:
    """A variant against the base at the longest length that both reached."""

    measure: Measure
    variant: str
    length: int
    time: float
    """The factor by which it takes less time; below 1 it takes more."""
    memory: float


@dataclass(frozen=True)
class BenchmarkResults:
    """A benchmark as it is shown and saved."""

    plan: BenchPlan
    """The lengths, variants and measures that were requested."""
    device: Mapping[str, object]
    """The device that measured: its type, name and number, its memory or the processor's threads."""
    config: Mapping[str, Any]
    """The resolved configuration of the benchmark."""
    measurements: tuple[CaseMeasurement, ...]
    """The measurements: one for each measure, variant and length."""

    def of(self, measure: Measure, variant: Variant) -> list[CaseMeasurement]:
        """Return the variant's measurements by length."""
        chosen = [m for m in self.measurements if m.case.measure == measure and m.case.variant == variant]
        return sorted(chosen, key=lambda m: m.case.length)

    def kinds(self) -> list[tuple[Measure, Variant]]:
        """Return the pairs of measure and variant, in the order in which they were measured."""
        return list(dict.fromkeys((m.case.measure, m.case.variant) for m in self.measurements))

    def label(self, variant: Variant) -> str:
        """Return the name of a variant: what it changes of the base."""
        return variant.label(self.plan.base)

    def growth(self, measure: Measure, variant: Variant) -> CostGrowth:
        """Return the exponents with which a variant's time, memory and FLOPs grow with length."""
        points = [m for m in self.of(measure, variant) if m.status == "measured"]
        return CostGrowth(
            time=_slope(points, lambda m: m.seconds),
            time_at_the_end=_slope(points[-2:], lambda m: m.seconds),
            memory=_slope(points, lambda m: m.peak_bytes),
            memory_at_the_end=_slope(points[-2:], lambda m: m.peak_bytes),
            flops=_slope(points, lambda m: m.flops),
        )

    def savings(self) -> list[Saving]:
        """Return what each variant saves against the base, at the longest length that both reached."""
        savings = []
        for measure, variant in self.kinds():
            own = {m.length: m for m in self.of(measure, variant) if m.status == "measured"}
            base = {m.length: m for m in self.of(measure, self.plan.base) if m.status == "measured"}
            if variant == self.plan.base or not (common := own.keys() & base.keys()):
                continue
            length = max(common)
            time = base[length].seconds / own[length].seconds
            memory = base[length].peak_bytes / max(1, own[length].peak_bytes)
            savings.append(Saving(measure, self.label(variant), length, time, memory))
        return savings

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        kinds = self.kinds()
        growth = [{"measure": m, "variant": self.label(v), **asdict(self.growth(m, v))} for m, v in kinds]
        return {
            "device": dict(self.device),
            "plan": asdict(self.plan),
            "measurements": [self._row(m) for m in self.measurements],
            "growth": growth,
            "savings": [asdict(saving) for saving in self.savings()],
            "config": dict(self.config),
        }

    def _row(self, m: CaseMeasurement) -> dict[str, Any]:
        per_second = m.tokens / m.seconds if m.seconds else None
        rest = {key: value for key, value in asdict(m).items() if key != "case"}
        return {
            "measure": m.case.measure,
            "variant": self.label(m.case.variant),
            **asdict(m.case.variant),
            "asked_length": m.case.length,
            **rest,
            "tokens_per_second": per_second,
        }


def _slope(points: list[CaseMeasurement], value: Callable[[CaseMeasurement], float]) -> float | None:
    known = [(m.length, value(m)) for m in points if value(m) > 0]
    if len({length for length, _ in known}) < 2:
        return None
    lengths, values = zip(*known, strict=True)
    return float(np.polyfit([math.log(n) for n in lengths], [math.log(v) for v in values], 1)[0])


_TITLES: dict[Measure, str] = {
    "step": "one training step: forward, backward, optimizer",
    "forward": "forward: the logits, without gradients",
    "evaluation": "evaluation: the loss, without gradients, nothing generated",
}


def show_benchmark(results: BenchmarkResults) -> RenderableType:
    measures = list(dict.fromkeys(measure for measure, _ in results.kinds()))
    return Group(*(_table(results, measure) for measure in measures), _savings(results), *_reasons(results))


def _table(results: BenchmarkResults, measure: Measure) -> Table:
    variants = [variant for kind, variant in results.kinds() if kind == measure]
    columns = results.of(measure, variants[0])
    table = Table(title=_TITLES[measure], title_justify="left")
    table.add_column("variant")
    table.add_column("")
    for column in columns:
        table.add_column(f"{column.length:,}", justify="right")
    for name in ("growth", "at the end"):
        table.add_column(name, justify="right")
    for variant in variants:
        row, growth = results.of(measure, variant), results.growth(measure, variant)
        table.add_section()
        times = [duration(m.seconds, digits=3) if m.status == "measured" else _word(m) for m in row]
        table.add_row(results.label(variant), "time", *times, _exponent(growth.time), _exponent(growth.time_at_the_end))
        peaks = [memory(m.peak_bytes) if m.status == "measured" else "" for m in row]
        table.add_row("", "memory", *peaks, _exponent(growth.memory), _exponent(growth.memory_at_the_end))
    base = results.growth(measure, variants[0])
    table.caption = f"growth: exponent of the length; the declared FLOPs grow by {_exponent(base.flops)}"
    table.caption_justify = "left"
    return table


def _savings(results: BenchmarkResults) -> Table:
    base = results.label(results.plan.base)
    table = Table(title=f"against the {base}, at the longest length of both", title_justify="left")
    for name in ("variant", "measure", "length", "time", "memory"):
        table.add_column(name, justify="left" if name in ("variant", "measure") else "right")
    for saving in results.savings():
        table.add_row(saving.variant, saving.measure, f"{saving.length:,}", _times(saving.time), _times(saving.memory))
    return table


def _times(ratio: float) -> str:
    return f"{ratio:.2f} x less" if ratio >= 1 else f"{1 / ratio:.2f} x more"


def _exponent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _word(m: CaseMeasurement) -> str:
    return {"out_of_memory": "memory", "left_out": "left out"}.get(m.status, m.status)


def _reasons(results: BenchmarkResults) -> list[str]:
    """Return why something was not measured, each reason once."""
    data: dict[str, int] = {}
    for m in results.measurements:
        if m.status != "measured":
            data.setdefault(f"{m.case.measure}, {results.label(m.case.variant)}, {m.status}: {m.reason}", m.length)
    return [f"{reason} (from length {length:,})" for reason, length in data.items()]
