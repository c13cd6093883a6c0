"""What a case is expected to take, from the shorter ones of its kind, so that a sweep stops before memory runs out."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field

from headtohead.examining.bench.plan import Case, Measure, Variant

_STEEPEST, _FLATTEST = 2.0, 1.0
_MARGIN = 1.1


@dataclass
class MemoryGuard:
    """Remembers the peaks of every kind of case by length."""

    share: float
    peaks: dict[tuple[Measure, Variant], dict[int, int]] = field(default_factory=dict)
    ended: dict[tuple[Measure, Variant], int] = field(default_factory=dict)
    """The length at which a kind ran out of memory or was left out."""

    def learn(self, case: Case, peak_bytes: int) -> None:
        known = self.peaks.setdefault((case.measure, case.variant), {})
        known[case.length] = max(peak_bytes, known.get(case.length, 0))

    def end(self, case: Case) -> None:
        kind = (case.measure, case.variant)
        self.ended[kind] = min(case.length, self.ended.get(kind, case.length))

    def refusal(self, case: Case, free: int) -> str | None:
        """Why this case should not be tried."""
        kind = (case.measure, case.variant)
        if case.length >= self.ended.get(kind, case.length + 1):
            return f"memory ran out at length {self.ended[kind]}"
        expected = self.expected(case)
        if expected is not None and expected > self.share * free:
            return f"expected to take {expected / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free"
        return None

    def expected(self, case: Case) -> int | None:
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
