"""Whether the learning rate is one that the model stands: it is raised step by step until the loss goes up (Smith
2017, https://arxiv.org/abs/1506.01186)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from headtohead.examining.doctor.contracts import Finding
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.doctor.steps import Course

_LOWEST, _PER_DECADE, _DECADES = 1e-5, 8, 8
_RISE, _RISE_AT_LEAST = 1.3, 0.2
"""What counts as going up: a share of the loss at the start, and as many nats."""
_MARGIN = 3.0
"""A rate so far above the one at which the loss went up is too high; up to it, warm-up may save it."""
_TOO_LOW = 300.0
"""Times below the suggestion."""


@dataclass(frozen=True)
class RangeTest:
    """Rates, and the loss after a step at each."""

    rates: Sequence[float]
    losses: Sequence[float]
    went_up: bool

    @property
    def limit(self) -> float:
        """The largest rate at which the loss did not go up; infinite where it never did."""
        return self.rates[-1] if self.went_up else math.inf

    @property
    def suggestion(self) -> float:
        """A tenth of the rate at which the loss was lowest, to one digit."""
        best = self.rates[min(range(len(self.losses)), key=lambda place: self.losses[place])]
        return float(f"{best / 10:.0e}")


@lru_cache(maxsize=1)
def range_test(patient: Patient) -> RangeTest:
    """On one batch, from the start of the model."""
    course = Course(patient, patient.few)
    rates = [_LOWEST * 10 ** (place / _PER_DECADE) for place in range(_PER_DECADE * _DECADES + 1)]
    losses: list[float] = []
    limit = math.inf
    for place, loss in enumerate(course.losses(len(rates), lambda step: rates[step] / course.rate)):
        patient.note(f"learning rate {rates[place]:.0e}, loss {loss:.2f}")
        losses.append(loss)
        limit = _RISE * losses[0] + _RISE_AT_LEAST
        if not loss <= limit:
            break
    went_up = not losses[-1] <= limit
    # The loss before a step is what the step before left.
    after = [loss if math.isfinite(loss) else math.inf for loss in losses[1:]]
    return RangeTest(rates[: len(after)], after, went_up)


def learning_rate(patient: Patient) -> Finding:
    """The configured rate, against the range that the test found."""
    rate = Course(patient, patient.few).rate
    if not rate > 0:
        return Finding("fault", f"optimizer.lr={rate:g} moves nothing", "raise optimizer.lr to 1e-3", {"rate": rate})
    test = range_test(patient)
    measured = {"rate": rate, "suggestion": test.suggestion}
    if math.isfinite(test.limit):
        measured["limit"] = test.limit
    if rate > test.limit:
        says = f"optimizer.lr={rate:g} is {rate / test.limit:.3g} times {test.limit:.1g}, where the loss goes up"
        verdict = "fault" if rate > _MARGIN * test.limit else "warning"
        return Finding(verdict, says, f"lower optimizer.lr, to about {test.suggestion:g}", measured)  # type: ignore[arg-type]
    if rate < test.suggestion / _TOO_LOW:
        says = f"optimizer.lr={rate:g} hardly moves the loss, which falls fastest near {10 * test.suggestion:g}"
        return Finding("warning", says, f"raise optimizer.lr, to about {test.suggestion:g}", measured)
    stands = f"the loss goes up from {test.limit:.1g}" if test.went_up else "the loss never goes up"
    return Finding(
        "ok", f"{rate:g}; {stands}, and a tenth of the rate with the lowest is {test.suggestion:g}", "", measured
    )
