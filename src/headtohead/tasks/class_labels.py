"""What tasks over a few classes share: the loss, the best guess without a look, names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from headtohead.data.batch import IGNORED
from headtohead.data.contracts import DataSpec
from headtohead.metrics.loss import LOSS
from headtohead.tasks.confusion import figures_of
from headtohead.tasks.contracts import Loss


@dataclass(frozen=True)
class Guess:
    """What one gets who knows the shares of the classes and nothing else."""

    loss: float
    """In nats, of saying the shares themselves."""
    accuracy: float
    """Of naming the largest class always."""


def guess(spec: DataSpec) -> Guess:
    """Of a class, from the shares in the train split."""
    return guess_from(spec.class_shares, spec.num_classes)


def guess_from(shares: Sequence[float], count: int) -> Guess:
    """One of so many, which count alike where their shares are unknown."""
    if not shares:
        return Guess(loss=math.log(count), accuracy=1 / count)
    return Guess(loss=-sum(share * math.log(share) for share in shares if share), accuracy=max(shares))


def guessed_classes(spec: DataSpec, counts: Sequence[float]) -> dict[str, float]:
    """Return what labels of these counts give one who knows the shares of the train split and nothing else: the largest
    class named always; all classes alike where no shares are known."""
    total, confusion = np.asarray(counts, dtype=np.float64), np.zeros((spec.num_classes, spec.num_classes))
    if not spec.class_shares:
        confusion[:] = total[:, None] / spec.num_classes
        return {LOSS.name: math.log(spec.num_classes), **figures_of(confusion)}
    confusion[:, int(np.argmax(spec.class_shares))] = total
    return {LOSS.name: cross_entropy(total, spec.class_shares), **figures_of(confusion)}


def token_guess(counts: np.ndarray, in_train: np.ndarray) -> Guess:
    """Return what targets of these counts give one who knows those of the train split; of a token that was not met
    there as much is expected as of one that was met once less, and where none was met all are alike."""
    if not in_train.sum():
        return guess_from((), len(counts))
    shares = (in_train + 1) / (in_train.sum() + len(in_train))
    return Guess(loss=cross_entropy(counts, shares), accuracy=float(counts[in_train.argmax()] / counts.sum()))


def cross_entropy(counts: np.ndarray, shares: Sequence[float] | np.ndarray) -> float:
    """Return the loss, in nats, of predicting these shares for targets of these counts; where a target has no share,
    which would cost without end, that of predicting all alike."""
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
    """Return the loss of each row by itself; 0 where nothing counts."""
    return F.cross_entropy(wide(logits), targets, reduction="none", ignore_index=IGNORED)


def soft_class_loss(
    logits: Float[Tensor, "N C"],
    soft_targets: Float[Tensor, "N C"],
    targets: Int[Tensor, " N"],
    *,
    label_smoothing: float = 0.0,
) -> Loss:
    """Of samples that are of several classes in shares; `targets` say which of them count."""
    logits = wide(logits)
    shares = soft_targets.to(logits.dtype)
    losses = F.cross_entropy(logits, shares, reduction="none", label_smoothing=label_smoothing)
    counted = targets != IGNORED
    return Loss(total=(losses * counted).sum(), count=counted.sum())


def wide(logits: Tensor) -> Tensor:
    """Sums of probabilities need more than a half precision."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


def class_name(spec: DataSpec, number: int) -> str:
    return spec.class_names[number] if number < len(spec.class_names) else str(number)


def class_names(spec: DataSpec) -> tuple[str, ...]:
    return tuple(class_name(spec, number) for number in range(spec.num_classes))
