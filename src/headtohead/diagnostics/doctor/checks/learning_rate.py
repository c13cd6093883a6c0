"""Check whether the model tolerates the learning rate, by raising it step by step until the loss goes up (Smith 2017,
https://arxiv.org/abs/1506.01186)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from headtohead.diagnostics.doctor.patient import Finding, Patient, Verdict, not_applicable
from headtohead.diagnostics.doctor.training_steps import ShortTraining

_LOWEST, _PER_DECADE, _DECADES = 1e-5, 8, 8
_GIVEN_BACK, _AT_LEAST = 0.5, 0.2
"""The loss has gone up when it gave back half of what it had won, and some more nats, which noise does not give."""
_MARGIN = 3.0
"""A rate so far above the one at which the loss went up is too high; up to it, only where it does not learn."""
_NUM_STEPS = 60
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
        """Return the rate at which the loss went up; infinite where it never did."""
        return self.rates[-1] if self.went_up else math.inf

    @property
    def suggestion(self) -> float:
        """A tenth of the rate at which the loss was lowest, to one digit."""
        best = self.rates[min(range(len(self.losses)), key=lambda index: self.losses[index])]
        return float(f"{best / 10:.0e}")


@lru_cache(maxsize=1)
def range_test(patient: Patient) -> RangeTest:
    """Run the test on one batch, from the initial model."""
    course = ShortTraining(patient, patient.few)
    rates = [_LOWEST * 10 ** (index / _PER_DECADE) for index in range(_PER_DECADE * _DECADES + 1)]
    losses: list[float] = []
    went_up = False
    for index, loss in enumerate(course.losses(len(rates), lambda step: rates[step] / course.rate)):
        patient.note(f"learning rate {rates[index]:.0e}, loss {loss:.2f}")
        losses.append(loss)
        lowest = min(losses[:-1], default=loss)
        went_up = not loss <= lowest + _GIVEN_BACK * (losses[0] - lowest) + _AT_LEAST
        if went_up:
            break
    # The loss before a step is what the step before left.
    after = [loss if math.isfinite(loss) else math.inf for loss in losses[1:]]
    return RangeTest(rates[: len(after)], after, went_up)


def learning_rate(patient: Patient) -> Finding:
    """Check the configured rate, against the range that the test found."""
    if not any(parameter.requires_grad for parameter in patient.model.parameters()):
        return not_applicable("every weight is frozen")
    rate = ShortTraining(patient, patient.few).rate
    if not rate > 0:
        return Finding("fault", f"optimizer.lr={rate:g} moves nothing", "raise optimizer.lr to 1e-3", {"rate": rate})
    test = range_test(patient)
    measured = {"rate": rate, "suggestion": test.suggestion}
    if math.isfinite(test.limit):
        measured["limit"] = test.limit
    if rate > _MARGIN * test.limit or (rate > test.limit and not _falls(patient)):
        message = f"optimizer.lr={rate:g} is {rate / test.limit:.2g} times {test.limit:.1g}, where the loss goes up"
        verdict: Verdict = "fault" if rate > _MARGIN * test.limit else "warning"
        return Finding(verdict, message, f"lower optimizer.lr, to about {test.suggestion:g}", measured)
    if rate < test.suggestion / _TOO_LOW:
        message = f"optimizer.lr={rate:g} hardly moves the loss, which falls fastest near {10 * test.suggestion:g}"
        return Finding("warning", message, f"raise optimizer.lr, to about {test.suggestion:g}", measured)
    stands = f"goes up near {test.limit:.1g}" if test.went_up else "never goes up"
    message = f"optimizer.lr={rate:g}; raised step by step, the loss is lowest at {10 * test.suggestion:g} and {stands}"
    return Finding("ok", message, "", measured)


def _falls(patient: Patient) -> bool:
    """Return whether the loss of the batch halves at the configured rate."""
    course = ShortTraining(patient, patient.few)
    start = course.loss()
    for _ in course.losses(_NUM_STEPS, lambda _: 1.0):
        pass
    return course.loss() < 0.5 * start
