"""What a sweep found: measurements, how time grows with length, what each variant saves against the base."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headtohead.examining.bench.measuring import Measurement
from headtohead.examining.bench.plan import BenchPlan, Measure, Variant


@dataclass(frozen=True)
class Growth:
    """Exponents of a power law in length, by least squares on logarithms; None with fewer than two lengths."""

    time: float | None
    """Over all lengths."""
    time_at_the_end: float | None
    """Between the two longest: where a constant part no longer hides the growth."""
    memory: float | None
    memory_at_the_end: float | None
    flops: float | None
    """Of the declared FLOPs, over the same lengths: what the mathematics asks for."""


@dataclass(frozen=True)
class Saving:
    """A variant against the base at the longest length that both reached."""

    measure: Measure
    variant: str
    length: int
    time: float
    """How many times less time; below 1 it takes more."""
    memory: float


@dataclass(frozen=True)
class Findings:
    """A benchmark as it is shown and saved."""

    plan: BenchPlan
    device: Mapping[str, Any]
    config: Mapping[str, Any]
    measurements: tuple[Measurement, ...]

    def of(self, measure: Measure, variant: Variant) -> list[Measurement]:
        """By length."""
        found = [m for m in self.measurements if m.case.measure == measure and m.case.variant == variant]
        return sorted(found, key=lambda m: m.case.length)

    def kinds(self) -> list[tuple[Measure, Variant]]:
        return list(dict.fromkeys((m.case.measure, m.case.variant) for m in self.measurements))

    def label(self, variant: Variant) -> str:
        return variant.label(self.plan.base)

    def growth(self, measure: Measure, variant: Variant) -> Growth:
        points = [m for m in self.of(measure, variant) if m.status == "measured"]
        return Growth(
            time=_slope(points, lambda m: m.seconds),
            time_at_the_end=_slope(points[-2:], lambda m: m.seconds),
            memory=_slope(points, lambda m: m.peak_bytes),
            memory_at_the_end=_slope(points[-2:], lambda m: m.peak_bytes),
            flops=_slope(points, lambda m: m.flops),
        )

    def savings(self) -> list[Saving]:
        found = []
        for measure, variant in self.kinds():
            own = {m.length: m for m in self.of(measure, variant) if m.status == "measured"}
            base = {m.length: m for m in self.of(measure, self.plan.base) if m.status == "measured"}
            if variant == self.plan.base or not (common := own.keys() & base.keys()):
                continue
            length = max(common)
            time = base[length].seconds / own[length].seconds
            memory = base[length].peak_bytes / max(1, own[length].peak_bytes)
            found.append(Saving(measure, self.label(variant), length, time, memory))
        return found

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

    def _row(self, m: Measurement) -> dict[str, Any]:
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


def _slope(points: list[Measurement], value: Callable[[Measurement], float]) -> float | None:
    known = [(m.length, value(m)) for m in points if value(m) > 0]
    if len({length for length, _ in known}) < 2:
        return None
    lengths, values = zip(*known, strict=True)
    return float(np.polyfit([math.log(n) for n in lengths], [math.log(v) for v in values], 1)[0])
