"""What tasks share whose targets are tokens of a vocabulary: causal, masked, sequence to sequence."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.data.batch import IGNORED, Batch
from headtohead.tasks.chunked_cross_entropy import Scores, Workspace
from headtohead.tasks.contracts import Loss, Task
from headtohead.tasks.monitoring import direction_of
from headtohead.tasks.row_scores import summed_by_row
from headtohead.tasks.vocabulary import checked_smoothing, loss_of_rows, score_rows, scored_rows, vocabulary_head


class TokenPrediction(Task):
    """The head runs on the rows of features that have a target, and on no others."""

    metrics: ClassVar[tuple[str, ...]]
    few_are_scored: ClassVar[bool] = False
    """True where it pays to make the host wait for an accelerator and then score few rows."""

    def __init__(self, label_smoothing: float, monitor: str) -> None:
        super().__init__()
        self.label_smoothing = checked_smoothing(label_smoothing)
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        self.workspace = Workspace()

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        return self.token_loss(model, model.features(**batch.inputs()), batch)

    def token_loss(self, model: Architecture, features: Float[Tensor, "B L D"], batch: Batch) -> Loss:
        smoothing = self.label_smoothing if model.training else 0.0
        rows, targets = self._rows(features, batch)
        head = vocabulary_head(model)
        return loss_of_rows(head, rows, targets, label_smoothing=smoothing, workspace=self.workspace)

    def token_scores(self, model: Architecture, features: Float[Tensor, "B L D"], batch: Batch) -> Scores:
        rows, targets = self._rows(features, batch)
        return score_rows(vocabulary_head(model), rows, targets, workspace=self.workspace)

    @torch.no_grad()
    def predicted(self, model: Architecture, batch: Batch) -> Int[Tensor, "B L"]:
        """The likeliest token wherever there is a target, IGNORED elsewhere."""
        return placed(self.token_scores(model, model.features(**batch.inputs()), batch).predicted, targets_of(batch))

    def keep_rows(self, stage: str, scores: Scores, batch: Batch, **more: Tensor) -> None:
        """Loss, hits and number of targets of each row of a test, and what else the task counts by row."""
        if stage == "test" and self.rows.wanted:
            targets = targets_of(batch)
            right = (targets != IGNORED) & (placed(scores.predicted, targets) == targets)
            loss, tokens = summed_by_row(scores.losses, targets), (targets != IGNORED).sum(1)
            self.rows.add(batch.rows, loss=loss, correct=right.sum(1), tokens=tokens, **more)

    def _rows(self, features: Float[Tensor, "B L D"], batch: Batch) -> tuple[Tensor, Tensor]:
        return scored_rows(features, targets_of(batch), wait=self.few_are_scored)


def targets_of(batch: Batch) -> Tensor:
    assert batch.targets is not None, "view makes the targets, or checks them"
    return batch.targets


def placed(values: Int[Tensor, " N"], targets: Int[Tensor, "B L"]) -> Int[Tensor, "B L"]:
    """What `scored_rows` laid in a row, back where it came from; IGNORED where nothing counts."""
    counted = targets != IGNORED
    whole = torch.full_like(targets, IGNORED)
    whole[counted] = values if len(values) == counted.sum() else values.view(targets.shape)[counted]
    return whole
