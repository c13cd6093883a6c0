"""Whether the model learns one small batch by heart, by the steps that a run takes, its warm-up left out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headtohead.examining.doctor.contracts import Finding
from headtohead.examining.doctor.floor import blind, floor
from headtohead.examining.doctor.learning_rate import range_test
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.doctor.steps import Course

NUM_STEPS = 300
_LOOK_EVERY = 10
_LEFT, _LEFT_AT_END = 0.2, 1 / 3
"""The share of the loss above its floor at which a batch counts as learnt; after the last step more may be left."""
_LOST, _PATIENCE = 2.0, 60
"""A share of the loss that does not come back after so many steps."""
_BLIND = 0.97
"""Of the loss of one who knows the frequencies alone: ending above it means that nothing of the input was used."""
_STILL = 0.02
"""The share by which a loss must fall, or rise, to have moved at all."""


@dataclass(frozen=True)
class Learnt:
    """What some steps on one batch came to."""

    start: float
    end: float
    lowest_possible: float
    num_steps: int

    @property
    def left(self) -> float:
        """The share of the loss above its floor that is left."""
        return (self.end - self.lowest_possible) / max(1e-9, self.start - self.lowest_possible)

    def __str__(self) -> str:
        low = f", {self.lowest_possible:.2f} is possible" if self.lowest_possible > 0.005 else ""
        return f"the loss of one batch goes from {self.start:.2f} to {self.end:.2f} in {self.num_steps} steps{low}"


def learn(patient: Patient, rate: float | None = None, *, patience: int = 1) -> Learnt:
    """At the configured learning rate, or another; ends early where the batch is known, or the loss is no number."""
    num_steps = patience * NUM_STEPS
    course = Course(patient, patient.few)
    factor = 1.0 if rate is None else rate / course.rate
    lowest = floor(patient.few, patient.causal_field)
    start = end = course.loss()
    step = 0
    for step, loss in enumerate(course.losses(num_steps, lambda _: factor), start=1):
        if step % _LOOK_EVERY == 0 or not math.isfinite(loss):
            end = course.loss()
            patient.note(f"step {step} of {num_steps}, loss {end:.2f}")
            left = Learnt(start, end, lowest, step).left
            if left < _LEFT or not math.isfinite(end) or (left > _LOST and step >= _PATIENCE):
                break
    return Learnt(start, end, lowest, step)


def overfitting(patient: Patient) -> Finding:
    """What stands in the way is told by what happens at another learning rate."""
    if not any(parameter.requires_grad for parameter in patient.model.parameters()):
        return Finding("fault", "nothing can be trained: every weight is frozen", "let some weights require gradients")
    course = Course(patient, patient.few)
    if not course.rate > 0:
        return Finding("fault", "nothing moves at a learning rate of 0", "raise optimizer.lr to 1e-3")
    learnt = learn(patient)
    measured = {"loss_at_start": learnt.start, "loss": learnt.end, "lowest_possible": learnt.lowest_possible}
    measured["steps"] = learnt.num_steps
    if learnt.left < _LEFT_AT_END:
        return Finding("ok", str(learnt), "", measured)
    return _diagnosed(patient, course.rate, learnt, measured)


def _diagnosed(patient: Patient, rate: float, learnt: Learnt, measured: dict[str, float]) -> Finding:
    """Too high a rate, a rate that another one beats, or none that helps."""
    test = range_test(patient)
    diverges = not learnt.left < 1 + _STILL
    if diverges or rate > test.limit:
        says = f"it {'diverges' if diverges else 'is not learnt'} at optimizer.lr={rate:g}: {learnt}"
        return Finding("fault", says, f"lower optimizer.lr, to about {min(test.suggestion, rate / 10):g}", measured)
    better = test.suggestion if not 0.3 < test.suggestion / rate < 3 else 3 * rate
    second = learn(patient, better, patience=2)
    measured |= {"other_rate": better, "loss_at_other_rate": second.end}
    moves = "it does not move" if learnt.left > 1 - _STILL else "it moves, but stays above"
    if second.left < _LEFT_AT_END:
        way = "raise" if better > rate else "lower"
        says = f"{moves} at optimizer.lr={rate:g}, and is learnt at {better:g}: {learnt}"
        return Finding("warning", says, f"{way} optimizer.lr, to about {better:g}, or train for longer", measured)
    says = f"{moves} at optimizer.lr={rate:g} (and at {better:g}, with {second.end:.2f}): {learnt}"
    unseen = blind(patient.few)
    if min(learnt.end, second.end) > _BLIND * unseen:
        says = f"{says}; {unseen:.2f} is reached by knowing nothing but how often each target occurs"
        advice = (
            "look for what hides the input or stops the gradient, or try larger weights (model/initialisation=xavier)"
        )
        return Finding("fault", says, advice, measured)
    return Finding("warning", says, "train for longer, or widen the model; its kind may not suit the task", measured)
