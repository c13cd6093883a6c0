"""Tasks whose targets are tokens of a vocabulary share this base: causal, masked and sequence-to-sequence modelling."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.metrics.language_modelling import LOSS, PERPLEXITY
from headtohead.metrics.metric import Metric
from headtohead.tasks.chunked_cross_entropy import Scores, Workspace
from headtohead.tasks.class_metrics import Guess, token_guess
from headtohead.tasks.metric_sums import Arrays, PerStage, summed_by_row
from headtohead.tasks.task import Loss, Task, direction_of
from headtohead.tasks.vocabulary_loss import (
    checked_smoothing,
    loss_of_rows,
    perplexity,
    score_rows,
    scored_rows,
    train_batches,
    vocabulary_head,
)

_TARGETS = "targets"


class TokenPrediction(Task):
    """The head runs on the rows of features that have a target, and on no others."""

    counted_by: ClassVar[tuple[str, ...]] = (_TARGETS,)
    """Ways in which targets are counted for the baseline."""
    few_are_scored: ClassVar[bool] = False
    """Whether it pays to make the host wait for an accelerator and then score few rows."""

    def __init__(self, label_smoothing: float, monitor: str) -> None:
        super().__init__()
        self.label_smoothing = checked_smoothing(label_smoothing)
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        self.workspace = Workspace()
        self._in_train: dict[str, np.ndarray] | None = None
        self._occurring: dict[str, dict[str, np.ndarray]] = {}

    def bind(self, spec: DataSpec) -> Task:
        self.occurring = PerStage(lambda: Arrays(dict.fromkeys(self.counted_by, (spec.vocab_size,))))
        return super().bind(spec)

    def counts(self, targets: Int[Tensor, "B L"]) -> dict[str, Tensor]:
        """Return how often each token is a target, by the names of `counted_by`."""
        return {_TARGETS: torch.bincount(targets[targets != IGNORED], minlength=self.spec.vocab_size)}

    def count_targets(self, stage: Literal["validation", "test"], batch: Batch) -> None:
        """Add the batch's targets to those of the stage, for its baseline."""
        self.occurring.add(stage, **self.counts(targets_of(batch)))

    def read_targets(self, stage: Literal["validation", "test"]) -> None:
        """Take over the counts of all devices."""
        counts = self.occurring.read(stage)
        self._occurring[stage] = {name: np.array(counts[name]) for name in self.counted_by}

    def in_train(self) -> dict[str, np.ndarray]:
        """Return the same counts of the train split, looked up once; zeros where it cannot be read."""
        if self._in_train is None:
            counts = {name: np.zeros(self.spec.vocab_size) for name in self.counted_by}
            for batch in train_batches(self.spec):
                for name, count in self.counts(targets_of(self.training_view(batch, seed=0, epoch=0))).items():
                    counts[name] += count.numpy()
            self._in_train = counts
        return self._in_train

    def guess(self, stage: Literal["validation", "test"], name: str = _TARGETS) -> Guess | None:
        """Return the guess on the stage's last targets that knows only those of the train split: their frequencies for
        the loss, the most frequent one always for the accuracy. None before results."""
        if stage not in self._occurring:
            return None
        return token_guess(self._occurring[stage][name], self.in_train()[name])

    def guessed(self, stage: Literal["validation", "test"], accuracy: Metric) -> dict[str, float]:
        """Return the guess as loss, perplexity and this accuracy; nothing before results."""
        if (guess := self.guess(stage)) is None:
            return {}
        return {LOSS.name: guess.loss, PERPLEXITY.name: perplexity(guess.loss), accuracy.name: guess.accuracy}

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
        """Return the most likely token wherever there is a target, and IGNORED elsewhere."""
        return at_target_positions(
            self.token_scores(model, model.features(**batch.inputs()), batch).predicted, targets_of(batch)
        )

    def keep_rows(self, stage: str, scores: Scores, batch: Batch, **more: Tensor) -> None:
        """Record the loss, hits and number of targets of each row of a test, and what else the task counts per row."""
        if stage == "test" and self.rows.enabled:
            targets = targets_of(batch)
            right = (targets != IGNORED) & (at_target_positions(scores.predicted, targets) == targets)
            loss, tokens = summed_by_row(scores.losses, targets), (targets != IGNORED).sum(1)
            self.rows.add(batch.rows, loss=loss, correct=right.sum(1), tokens=tokens, **more)

    def _rows(self, features: Float[Tensor, "B L D"], batch: Batch) -> tuple[Tensor, Tensor]:
        return scored_rows(features, targets_of(batch), wait=self.few_are_scored)


def targets_of(batch: Batch) -> Tensor:
    assert batch.targets is not None, "view makes the targets, or checks them"
    return batch.targets


def at_target_positions(values: Int[Tensor, " N"], targets: Int[Tensor, "B L"]) -> Int[Tensor, "B L"]:
    """Put values that `scored_rows` flattened back to their positions; IGNORED where nothing counts."""
    counted = targets != IGNORED
    placed = torch.full_like(targets, IGNORED)
    placed[counted] = values if len(values) == counted.sum() else values.view(targets.shape)[counted]
    return placed
