"""Check whether the model can memorise one small batch, by the steps that a run takes without warm-up."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.diagnostics.doctor.checks.learning_rate import range_test
from headtohead.diagnostics.doctor.patient import Finding, Patient
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
