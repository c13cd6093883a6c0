"""Tasks over a few classes share these: the loss, the best guess without inputs, and class names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import DataSpec
from headtohead.metrics.labels import ACCURACY, F1_MACRO, F1_SECOND_CLASS, MATTHEWS, PRECISION_MACRO, RECALL_MACRO
from headtohead.metrics.language_modelling import LOSS
from headtohead.tasks.task import Loss

OF_CLASSES = (ACCURACY, PRECISION_MACRO, RECALL_MACRO, F1_MACRO, MATTHEWS, F1_SECOND_CLASS)


@dataclass(frozen=True)
class ClassTotals:
    """The samples of each class: those named rightly, those that are of it, and those said to be. All metrics
    of classes follow from them; a matrix of confusion is as large as the square of the number of classes."""

    right: np.ndarray
    true: np.ndarray
    predicted: np.ndarray

    @staticmethod
    def of(confusion: Sequence[Sequence[float]] | np.ndarray) -> ClassTotals:
        """Return the totals of a matrix with true classes as rows and predicted ones as columns."""
        counts = np.array(confusion, dtype=np.float64)
        return ClassTotals(counts.diagonal(), counts.sum(1), counts.sum(0))

    @staticmethod
    def counted(predicted: np.ndarray, true: np.ndarray, num_classes: int) -> ClassTotals:
        """Return the totals of samples, from the class of each."""
        of_classes = (np.bincount(which, minlength=num_classes) for which in (true[predicted == true], true, predicted))
        return ClassTotals(*(counts.astype(np.float64) for counts in of_classes))


def figures_of(totals: ClassTotals) -> dict[str, float]:
    """Return the metrics; means over classes leave out those that are neither true nor predicted, and the F1 of the
    second class is that of two classes alone."""
    right, true, predicted = totals.right, totals.true, totals.predicted
    seen = true + predicted > 0
    figures = {
        ACCURACY.name: float(right.sum() / true.sum()),
        PRECISION_MACRO.name: _mean_share(right, predicted, seen),
        RECALL_MACRO.name: _mean_share(right, true, seen),
        F1_MACRO.name: _mean_share(2 * right, true + predicted, seen),
        MATTHEWS.name: matthews(totals),
    }
    return figures | ({F1_SECOND_CLASS.name: f1_of(totals, 1)} if len(true) == 2 else {})


def _mean_share(parts: np.ndarray, group_ids: np.ndarray, seen: np.ndarray) -> float:
    """Return the mean share over the classes that occur; a share of nothing is 0."""
    return float(np.divide(parts, group_ids, out=np.zeros_like(parts), where=group_ids > 0)[seen].mean())


def matthews(totals: ClassTotals) -> float:
    """Return the correlation of predicted with true classes, of any number (Gorodkin 2004,
    https://doi.org/10.1016/j.compbiolchem.2004.09.006); 0 where either is constant."""
    total, right, true, predicted = totals.true.sum(), totals.right.sum(), totals.true, totals.predicted
    scale = (total**2 - predicted @ predicted) * (total**2 - true @ true)
    return float((right * total - true @ predicted) / np.sqrt(scale)) if scale > 1e-12 * total**4 else 0.0


def f1_of(totals: ClassTotals, number: int) -> float:
    """Return the F1 of detecting one class; 0 where it is never detected correctly."""
    right = totals.right[number]
    return float(2 * right / (totals.true[number] + totals.predicted[number])) if right else 0.0


@dataclass(frozen=True)
class Guess:
    """The loss and accuracy of a guess that knows only the shares of the classes."""

    loss: float
    """The loss, in nats, of predicting the shares themselves."""
    accuracy: float
    """The accuracy of always naming the largest class."""


def baseline_guess(spec: DataSpec) -> Guess:
    """Return the best guess of a class from the shares in the train split."""
    return baseline_guess_from(spec.class_shares, spec.num_classes)


def baseline_guess_from(shares: Sequence[float], count: int) -> Guess:
    """Return the best guess among `count` classes, uniform where their shares are unknown."""
    if not shares:
        return Guess(loss=math.log(count), accuracy=1 / count)
    return Guess(loss=-sum(share * math.log(share) for share in shares if share), accuracy=max(shares))


def guessed_classes(spec: DataSpec, counts: Sequence[float] | np.ndarray) -> dict[str, float]:
    """Return the metrics, on labels of these counts, of a guess that knows only the shares of the train split: the
    largest class named always; all classes alike where no shares are known."""
    true, count = np.asarray(counts, dtype=np.float64), spec.num_classes
    if not spec.class_shares:
        alike = np.full(count, true.sum() / count)
        return {LOSS.name: math.log(count), **figures_of(ClassTotals(true / count, true, alike))}
    largest = np.arange(count) == int(np.argmax(spec.class_shares))
    guess = ClassTotals(true * largest, true, true.sum() * largest)
    return {LOSS.name: cross_entropy(true, spec.class_shares), **figures_of(guess)}


def token_guess(counts: np.ndarray, in_train: np.ndarray) -> Guess:
    """Return the guess, on targets of these counts, that knows only the counts of the train split, with add-one
    smoothing; all tokens are equally likely where the train split has none."""
    if not in_train.sum():
        return baseline_guess_from((), len(counts))
    shares = (in_train + 1) / (in_train.sum() + len(in_train))
    return Guess(loss=cross_entropy(counts, shares), accuracy=float(counts[in_train.argmax()] / counts.sum()))


def cross_entropy(counts: np.ndarray, shares: Sequence[float] | np.ndarray) -> float:
    """Return the loss, in nats, of predicting these shares for targets of these counts; the loss of a uniform
    prediction where a target has no share, which would cost infinitely much."""
    known = np.asarray(shares, dtype=np.float64)
    if (known[counts > 0] <= 0).any():
        return math.log(len(known))
    logs = np.log(known, out=np.zeros_like(known), where=known > 0)
    return min(float(-(counts @ logs) / counts.sum()), math.log(len(known)))


def class_loss(logits: Float[Tensor, "N C"], targets: Int[Tensor, " N"], *, label_smoothing: float = 0.0) -> Loss:
    total = F.cross_entropy(
        wide(logits), targets, reduction="sum", ignore_index=IGNORED, label_smoothing=label_smoothing
    )
    return Loss(total=total, count=(targets != IGNORED).sum())


def losses_of_rows(logits: Float[Tensor, "N C"], targets: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
    """Return the loss of each row separately; 0 where nothing counts."""
    return F.cross_entropy(wide(logits), targets, reduction="none", ignore_index=IGNORED)


def soft_class_loss(
    logits: Float[Tensor, "N C"],
    soft_targets: Float[Tensor, "N C"],
    targets: Int[Tensor, " N"],
    *,
    label_smoothing: float = 0.0,
) -> Loss:
    """Return the loss of samples that belong to several classes in shares; `targets` mark those that count."""
    logits = wide(logits)
    shares = soft_targets.to(logits.dtype)
    losses = F.cross_entropy(logits, shares, reduction="none", label_smoothing=label_smoothing)
    counted = targets != IGNORED
    return Loss(total=(losses * counted).sum(), count=counted.sum())


def wide(logits: Tensor) -> Tensor:
    """Return the logits in at least float32: sums of probabilities need more than half precision."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


def class_name(spec: DataSpec, number: int) -> str:
    return spec.class_names[number] if number < len(spec.class_names) else str(number)


def class_names(spec: DataSpec) -> tuple[str, ...]:
    return tuple(class_name(spec, number) for number in range(spec.num_classes))
