"""Every token task meets a vocabulary head here: rows that count, loss in chunks, metrics from sums."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.heads import IdentityHead
from headtohead.architectures.vocabulary_heads import VocabularyHead
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.batches.row_order import OrderedSplit
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.tasks.chunked_cross_entropy import Scores, Workspace, cross_entropy_sum, score
from headtohead.tasks.class_metrics import class_loss, losses_of_rows
from headtohead.tasks.task import Loss


def vocabulary_head(model: Architecture) -> VocabularyHead | IdentityHead:
    if not isinstance(model.head, VocabularyHead | IdentityHead):
        raise UsageError(
            f"head={type(model.head).__name__} makes no logits over a vocabulary, which this task predicts: "
            "build the model with the head that the task names."
        )
    return model.head


def scored_rows(
    features: Float[Tensor, "B L D"], targets: Int[Tensor, "B L"], *, wait: bool
) -> tuple[Float[Tensor, "N D"], Int[Tensor, " N"]]:
    """Return features and targets as rows, without those that count nothing.

    Selecting them makes the host wait for an accelerator, so there all rows are retained unless `wait` is set.
    """
    rows, flat = features.flatten(0, 1), targets.flatten()
    index = scored_index(flat, wait=wait)
    return (rows, flat) if index is None else (rows.index_select(0, index), flat.index_select(0, index))


def scored_index(targets: Int[Tensor, " N"], *, wait: bool) -> Int[Tensor, " M"] | None:
    """Return which rows count; None where all are retained."""
    if not wait and targets.device.type != "cpu":
        return None
    index = (targets != IGNORED).nonzero().squeeze(1)
    return None if len(index) == len(targets) else index


def loss_of_rows(
    head: VocabularyHead | IdentityHead,
    rows: Tensor,
    targets: Tensor,
    *,
    label_smoothing: float,
    workspace: Workspace,
) -> Loss:
    if isinstance(head, IdentityHead):
        return class_loss(rows, targets, label_smoothing=label_smoothing)
    total = cross_entropy_sum(
        head.transform(rows),
        head.weight,
        head.bias,
        targets,
        cap=head.cap,
        label_smoothing=label_smoothing,
        workspace=workspace,
    )
    return Loss(total=total, count=(targets != IGNORED).sum())


def score_rows(head: VocabularyHead | IdentityHead, rows: Tensor, targets: Tensor, *, workspace: Workspace) -> Scores:
    if isinstance(head, IdentityHead):
        return _score_logits(rows.detach(), targets)
    with torch.no_grad():
        return score(head.transform(rows), head.weight, head.bias, targets, cap=head.cap, workspace=workspace)


def _score_logits(logits: Float[Tensor, "N V"], targets: Int[Tensor, " N"]) -> Scores:
    loss, predicted = class_loss(logits, targets), logits.argmax(1)
    correct = ((predicted == targets) & (targets != IGNORED)).sum()
    return Scores(loss.total.double(), correct, loss.count, predicted, losses_of_rows(logits, targets))


def perplexity(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf


def checked_smoothing(label_smoothing: float) -> float:
    if not 0 <= label_smoothing < 1:
        raise UsageError(f"task.label_smoothing={label_smoothing} must be at least 0 and below 1.")
    return label_smoothing


def mean(total: float, count: float, what: str) -> float:
    """Return the ratio, and refuse to divide by nothing."""
    if not count:
        raise UsageError(f"no {what} was scored: the split is empty, or all of its targets are ignored.")
    return total / count


_MOST_ROWS, _AT_ONCE = 2048, 256


def train_batches(spec: DataSpec) -> Iterator[Batch]:
    """Yield rows from all over the split, the same each time; none of a stream, which has no position to pick them
    from, and none where the data opens no train split."""
    split = None if spec.open_train is None else spec.open_train()
    if split is None or isinstance(split, OrderedSplit) or not len(split):
        return
    rows = np.unique(np.linspace(0, len(split) - 1, min(len(split), _MOST_ROWS)).astype(np.int64))
    for start in range(0, len(rows), _AT_ONCE):
        yield split.batch(rows[start : start + _AT_ONCE])
