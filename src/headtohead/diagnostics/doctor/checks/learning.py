"""Check whether the model can memorise one small batch, by the steps that a run takes without warm-up; and whether it
tolerates the learning rate, by raising it step by step until the loss goes up (Smith 2017,
https://arxiv.org/abs/1506.01186)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.diagnostics.doctor.patient import Finding, Patient, Verdict, not_applicable
from headtohead.diagnostics.doctor.training_steps import ShortTraining

NUM_STEPS = 300
_LOOK_EVERY = 10
_LEFT, _LEFT_AT_END = 0.2, 1 / 3
"""The share of the loss above its floor at which a batch counts as learnt; after the last step more may be left."""
_LOST, _PATIENCE = 2.0, 60
"""A share of the loss that does not come back after so many steps."""
_BLIND = 0.97
"""The share of the loss of a guess by frequencies alone: ending above it means that nothing of the input was used."""
_STILL = 0.02
"""The share by which a loss must fall, or rise, to have moved at all."""


@dataclass(frozen=True)
class OverfittedBatch:
    """An overfitted batch is the outcome of some steps on one batch."""

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


def overfit(patient: Patient, rate: float | None = None, *, patience: int = 1) -> OverfittedBatch:
    """Train at the configured learning rate, or another; stop early if the batch is memorised, or the loss is not
    finite."""
    num_steps = patience * NUM_STEPS
    course = ShortTraining(patient, patient.few)
    factor = 1.0 if rate is None else rate / course.rate
    lowest = floor(patient.few, patient.causal_field)
    start = end = course.loss()
    step = 0
    for step, loss in enumerate(course.losses(num_steps, lambda _: factor), start=1):
        if step % _LOOK_EVERY == 0 or not math.isfinite(loss):
            end = course.loss()
            patient.note(f"step {step} of {num_steps}, loss {end:.2f}")
            left = OverfittedBatch(start, end, lowest, step).left
            if left < _LEFT or not math.isfinite(end) or (left > _LOST and step >= _PATIENCE):
                break
    return OverfittedBatch(start, end, lowest, step)


def overfitting(patient: Patient) -> Finding:
    """Check overfitting; another learning rate shows what stands in the way."""
    if not any(parameter.requires_grad for parameter in patient.model.parameters()):
        return Finding("fault", "nothing can be trained: every weight is frozen", "let some weights require gradients")
    course = ShortTraining(patient, patient.few)
    if not course.rate > 0:
        return Finding("fault", "nothing moves at a learning rate of 0", "raise optimizer.lr to 1e-3")
    overfitted = overfit(patient)
    measured = {
        "loss_at_start": overfitted.start,
        "loss": overfitted.end,
        "lowest_possible": overfitted.lowest_possible,
    }
    measured["steps"] = overfitted.num_steps
    if overfitted.left < _LEFT_AT_END:
        return Finding("ok", str(overfitted), "", measured)
    return _diagnosed(patient, course.rate, overfitted, measured)


def _diagnosed(patient: Patient, rate: float, overfitted: OverfittedBatch, measured: dict[str, float]) -> Finding:
    """Too high a rate, a rate that another one beats, or none that helps."""
    test = range_test(patient)
    diverges = not overfitted.left < 1 + _STILL
    if diverges or rate > test.limit:
        message = f"it {'diverges' if diverges else 'is not learned'} at optimizer.lr={rate:g}: {overfitted}"
        return Finding("fault", message, f"lower optimizer.lr, to about {min(test.suggestion, rate / 10):g}", measured)
    better = test.suggestion if not 0.3 < test.suggestion / rate < 3 else 3 * rate
    second = overfit(patient, better, patience=2)
    measured |= {"other_rate": better, "loss_at_other_rate": second.end}
    moves = "it does not move" if overfitted.left > 1 - _STILL else "it moves, but stays above"
    if second.left < _LEFT_AT_END:
        way = "raise" if better > rate else "lower"
        message = f"{moves} at optimizer.lr={rate:g}, and is learned at {better:g}: {overfitted}"
        return Finding("warning", message, f"{way} optimizer.lr, to about {better:g}, or train for longer", measured)
    message = f"{moves} at optimizer.lr={rate:g} (and at {better:g}, with {second.end:.2f}): {overfitted}"
    unseen = blind(patient.few)
    if min(overfitted.end, second.end) > _BLIND * unseen:
        message = f"{message}; {unseen:.2f} is reached by knowing nothing but how often each target occurs"
        advice = (
            "look for what hides the input or stops the gradient, or try larger weights (model/initialisation=xavier)"
        )
        return Finding("fault", message, advice, measured)
    return Finding("warning", message, "train for longer, or widen the model; its kind may not suit the task", measured)


def floor(batch: Batch, causal_field: Literal["tokens", "decoder_tokens"] | None) -> float:
    """The mean entropy, in nats, of scored targets given all that their outputs may see; of numbers their variance."""
    assert batch.targets is not None, "a task's view has targets"
    if batch.targets.is_floating_point():
        return _variance_of_equal(batch)
    seen: dict[bytes, Counter[int]] = defaultdict(Counter)
    targets = batch.targets.cpu().reshape(batch.num_samples, -1)
    for row in range(batch.num_samples):
        for index, target in enumerate(targets[row].tolist()):
            if target != IGNORED:
                seen[_visible(batch, row, index, causal_field)][target] += 1
    total = sum(count for counts in seen.values() for count in counts.values())
    lost = sum(-count * math.log(count / sum(counts.values())) for counts in seen.values() for count in counts.values())
    return lost / max(1, total)


def blind(batch: Batch) -> float:
    """Return the loss of one who sees no input, and knows how often each target occurs in it; of numbers, their
    mean."""
    assert batch.targets is not None, "a task's view has targets"
    if batch.targets.is_floating_point():
        return float(batch.targets.double().var(correction=0))
    counts = batch.targets[batch.targets != IGNORED].unique(return_counts=True)[1].double()
    return float(torch.special.entr(counts / counts.sum()).sum())


def _variance_of_equal(batch: Batch) -> float:
    """The squared error that is left where the same inputs have different numbers: a score, or hidden values."""
    assert batch.targets is not None
    numbers: dict[bytes, list[Tensor]] = defaultdict(list)
    for row, own in enumerate(batch.targets.cpu().double()):
        numbers[_visible(batch, row, 0, None)].append(own)
    lost = sum(float((torch.stack(alike) - sum(alike) / len(alike)).square().sum()) for alike in numbers.values())
    return lost / max(1, batch.targets.numel())


def _visible(batch: Batch, row: int, position: int, causal_field: str | None) -> bytes:
    """Return all that decides an output: everything and its place, or, causally, what stands up to it."""
    inputs = {name: tensor[row].cpu() for name, tensor in batch.inputs().items()}
    assert batch.targets is not None
    if causal_field is None or batch.targets.ndim == 1:
        return b"|".join([_bytes(tensor) for tensor in inputs.values()] + [str(position).encode()])
    own = inputs.pop(causal_field)[: position + 1]
    if batch.segments is not None:
        own = own[batch.segments[row].cpu()[: position + 1] == batch.segments[row, position].cpu()]
    source = [_bytes(inputs[name]) for name in ("tokens", "valid") if name in inputs and causal_field != "tokens"]
    return b"|".join([*source, _bytes(own)])


def _bytes(tensor: Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()


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
