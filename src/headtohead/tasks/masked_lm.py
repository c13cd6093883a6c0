"""Restore hidden tokens (Devlin et al. 2019, https://arxiv.org/abs/1810.04805): 15 % are chosen; of these 80 % become
the mask, 10 % a random token, 10 % stay."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataSpec
from headtohead.data.randomness import uniform
from headtohead.tasks.chunked_cross_entropy import Workspace
from headtohead.tasks.contracts import Loss, Task
from headtohead.tasks.monitoring import direction_of
from headtohead.tasks.sums import PerStage, Sums
from headtohead.tasks.vocabulary import (
    checked_smoothing,
    loss_of_rows,
    mean,
    perplexity,
    score_rows,
    scored_rows,
    vocabulary_head,
)

# Independent uses of the same row's random numbers.
CHOOSE, CORRUPT, REPLACE = 101, 102, 103
MASK_SHARE, RANDOM_SHARE = 0.8, 0.1


class MaskedLanguageModelling(Task):
    """Which tokens are hidden follows from (seed, epoch, row) alone; special tokens and padding never are."""

    head = "masked_language_model"
    families: ClassVar[tuple[str, ...]] = ("encoder_only",)
    data_kinds: ClassVar[tuple[str, ...]] = ("language", "labelled_text")
    metrics: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "masked_accuracy")

    def __init__(self, mask_rate: float = 0.15, label_smoothing: float = 0.0, monitor: str = "loss") -> None:
        super().__init__()
        if not 0 < mask_rate <= 1:
            raise ValueError(f"task.mask_rate={mask_rate} must be above 0 and at most 1.")
        self.mask_rate = mask_rate
        self.label_smoothing = checked_smoothing(label_smoothing)
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        self.workspace = Workspace()
        self.sums = PerStage(lambda: Sums("loss", "correct", "tokens"))

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        if batch.tokens is None:
            raise ValueError("task=masked_lm reads tokens, and this data has none: choose data of kind language.")
        spec, tokens = self.spec, batch.tokens

        def draw(stream: int) -> Float[Tensor, "B L"]:
            drawn = uniform(batch.rows.numpy(), tokens.shape[1], seed=seed, epoch=epoch, stream=stream)
            return torch.from_numpy(drawn)

        chosen = (tokens >= spec.num_special_ids) & (draw(CHOOSE) < self.mask_rate)
        if batch.valid is not None:
            chosen &= batch.valid
        how = draw(CORRUPT)
        masked = chosen & (how < MASK_SHARE)
        randomised = chosen & (how >= MASK_SHARE) & (how < MASK_SHARE + RANDOM_SHARE)
        num_words = spec.vocab_size - spec.num_special_ids
        words = (draw(REPLACE) * num_words).to(tokens.dtype) + spec.num_special_ids
        corrupted = torch.where(randomised, words, tokens).masked_fill(masked, spec.mask_id)
        return replace(batch, tokens=corrupted, targets=torch.where(chosen, tokens, IGNORED), num_bytes=None)

    def num_scored(self, length: int) -> int:
        """On average."""
        return max(1, round(self.mask_rate * length))

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        smoothing = self.label_smoothing if model.training else 0.0
        rows, targets = self._rows(model, batch)
        head = vocabulary_head(model)
        return loss_of_rows(head, rows, targets, label_smoothing=smoothing, workspace=self.workspace)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        rows, targets = self._rows(model, batch)
        scores = score_rows(vocabulary_head(model), rows, targets, workspace=self.workspace)
        self.sums.add(stage, loss=scores.loss, correct=scores.correct, tokens=scores.count)

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        loss = mean(sums["loss"], sums["tokens"], "masked token")
        return {
            "loss": loss,
            "perplexity": perplexity(loss),
            "masked_accuracy": sums["correct"] / sums["tokens"],
        }

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        size = spec.vocab_size
        return {"loss": math.log(size), "perplexity": float(size), "masked_accuracy": 1 / size}

    def _rows(self, model: Architecture, batch: Batch) -> tuple[Tensor, Tensor]:
        assert batch.targets is not None, "view makes the targets"
        return scored_rows(model.features(**batch.inputs()), batch.targets, wait=True)
