"""What a coordinate check found: sizes by place, and the power of the width that each grows with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

TOLERANCE = 0.25
"""An exponent so far from 0 is growth; few steps at small widths leave a tenth or two of finite size."""
LOGITS = "logits"
Quantity = Literal["size", "change"]
Verdict = Literal["flat", "grows", "shrinks", "fading", "no number"]


@dataclass(frozen=True)
class Measurement:
    """Mean absolute size of one place's output, and of what has changed in it since step 0."""

    width: int
    seed: int
    step: int
    place: str
    size: float
    change: float


@dataclass(frozen=True)
class Exponent:
    """Of a power law in the width, by least squares on logarithms."""

    value: float
    error: float
    """Its standard error over the seeds; with one seed, nan."""


@dataclass(frozen=True)
class Findings:
    """A check as it is shown and saved; `config` is that of the smallest width."""

    measurements: tuple[Measurement, ...]
    config: Mapping[str, Any]

    @property
    def widths(self) -> list[int]:
        return sorted({m.width for m in self.measurements})

    @property
    def places(self) -> list[str]:
        """From the data to the logits."""
        return list(dict.fromkeys(m.place for m in self.measurements))

    @property
    def last_step(self) -> int:
        return max(m.step for m in self.measurements)

    def mean(self, place: str, step: int, quantity: Quantity, width: int) -> float:
        """Over seeds."""
        return float(np.mean([getattr(m, quantity) for m in self._of(place, step) if m.width == width]))

    def exponent(self, place: str, step: int, quantity: Quantity) -> Exponent | None:
        """None where something is 0 or no number: there is no power of it."""
        by_seed: dict[int, tuple[list[float], list[float]]] = {}
        for m in self._of(place, step):
            value: float = getattr(m, quantity)
            if not (value > 0 and math.isfinite(value)):
                return None
            widths, values = by_seed.setdefault(m.seed, ([], []))
            widths.append(math.log(m.width))
            values.append(math.log(value))
        slopes = [float(np.polyfit(widths, values, 1)[0]) for widths, values in by_seed.values()]
        error = float(np.std(slopes, ddof=1)) / math.sqrt(len(slopes)) if len(slopes) > 1 else math.nan
        return Exponent(float(np.mean(slopes)), error)

    def verdict(self, place: str) -> Verdict:
        """By what training changed up to the last step."""
        exponent = self.exponent(place, self.last_step, "change")
        if exponent is None:
            return "no number"
        if abs(exponent.value) <= TOLERANCE:
            return "flat"
        if exponent.value > 0:
            return "grows"
        return "fading" if place == LOGITS and self._follows_start(exponent.value) else "shrinks"

    def _follows_start(self, value: float) -> bool:
        """Logits of drawn weights shrink by the root of the width, and so does what little training moves them by."""
        start = self.exponent(LOGITS, 0, "size")
        return start is not None and start.value < 0 and value > start.value - TOLERANCE / 2

    @property
    def is_flat(self) -> bool:
        """Whether training changes every place as much at every width."""
        return all(self.verdict(place) in ("flat", "fading") for place in self.places)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        rows = [
            {"place": place, "step": step, "quantity": quantity, "exponent": e.value, "error": _number(e.error)}
            for place in self.places
            for step in range(self.last_step + 1)
            for quantity in ("size", "change")
            if (e := self.exponent(place, step, quantity)) is not None
        ]
        return {
            "widths": self.widths,
            "flat": self.is_flat,
            "tolerance": TOLERANCE,
            "exponents": rows,
            "verdicts": {place: self.verdict(place) for place in self.places},
            "measurements": [
                {**asdict(m), "size": _number(m.size), "change": _number(m.change)} for m in self.measurements
            ],
            "config": dict(self.config),
        }

    def _of(self, place: str, step: int) -> list[Measurement]:
        return [m for m in self.measurements if m.place == place and m.step == step]


def _number(value: float) -> float | None:
    """JSON has no word for what is no number."""
    return value if math.isfinite(value) else None
