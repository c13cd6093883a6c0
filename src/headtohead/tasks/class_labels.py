"""What tasks over a few classes share: the loss, the best guess without a look, names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from headtohead.data.batch import IGNORED
from headtohead.data.contracts import DataSpec
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
