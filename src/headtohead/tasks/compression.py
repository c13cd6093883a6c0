"""Compression (Poli et al. 2024, https://arxiv.org/abs/2403.17844): write a whole row again from the vector of its last
token."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.heads import IdentityHead
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.language_modelling import LOSS, PERPLEXITY, TOKEN_ACCURACY
from headtohead.metrics.metric import Metric
from headtohead.ranges import Probability
from headtohead.tasks.chunked_cross_entropy import Scores
from headtohead.tasks.metric_sums import MetricSums, PerStage
from headtohead.tasks.task import Decode, Loss, Task, row_text
from headtohead.tasks.token_prediction import TokenPrediction, at_target_positions, targets_of
from headtohead.tasks.vocabulary_loss import loss_of_rows, mean, perplexity, score_rows, scored_rows


class Compression(TokenPrediction):
    """The target of each position is its own token, which the head has to know from the last token's vector alone.
    Special tokens and padding are not scored."""

    head: ClassVar[HeadName] = "reconstruction"
    families: ClassVar[tuple[str, ...]] = ("decoder_only", "encoder_only")
    data_kinds: ClassVar[tuple[str, ...]] = ("language",)
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, PERPLEXITY, TOKEN_ACCURACY)
    keeps_documents_apart: ClassVar[bool] = False
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("loss", "tokens"),
        "token_accuracy": ("correct", "tokens"),
    }

    def __init__(self, label_smoothing: Probability = 0.0, monitor: str = "loss") -> None:
        super().__init__(label_smoothing, monitor)
        self.sums = PerStage(lambda: MetricSums("loss", "correct", "tokens"))
        self.logits = IdentityHead()

    def bind(self, spec: DataSpec) -> Task:
        if spec.num_scored is not None:
            raise UsageError(
                "task=compression writes rows again, and this data asks for answers of its own: choose plain rows, "
                "such as data=random_tokens, or task=causal_lm."
            )
        return super().bind(spec)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.tokens is None:
            raise UsageError("task=compression reads tokens, and this data has none: choose data of kind language.")
        if batch.segments is not None:
            raise UsageError(
                "task=compression keeps a row in the vector of its last token, which sees only its own document where "
                "several are packed into a row: set data.packing=none or stream."
            )
        truth = batch.tokens if batch.original_tokens is None else batch.original_tokens
        counted = ~self.spec.are_special(truth)
        if batch.valid is not None:
            counted &= batch.valid
        return replace(batch, original_tokens=None, targets=torch.where(counted, truth, IGNORED), num_bytes=None)

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        rows, targets = self._logits(model, batch)
        smoothing = self.label_smoothing if model.training else 0.0
        return loss_of_rows(self.logits, rows, targets, label_smoothing=smoothing, workspace=self.workspace)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        scores = self._scores(model, batch)
        self.count_targets(stage, batch)
        self.sums.add(stage, loss=scores.loss, correct=scores.correct, tokens=scores.count)
        self.keep_rows(stage, scores, batch)

    @torch.no_grad()
    def predicted(self, model: Architecture, batch: Batch) -> Int[Tensor, "B L"]:
        return at_target_positions(self._scores(model, batch).predicted, targets_of(batch))

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        self.read_targets(stage)
        loss = mean(sums["loss"], sums["tokens"], "token")
        return {
            LOSS.name: loss,
            PERPLEXITY.name: perplexity(loss),
            TOKEN_ACCURACY.name: sums["correct"] / sums["tokens"],
        }

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of a uniform prediction over tokens."""
        size = spec.vocab_size
        return {LOSS.name: math.log(size), PERPLEXITY.name: float(size), TOKEN_ACCURACY.name: 1 / size}

    def chance(self) -> dict[str, float]:
        """Return the metrics of a uniform prediction over tokens."""
        return self.baseline(self.spec)

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the loss of the train split's token frequencies, and the accuracy of always naming its most frequent
        token."""
        return self.guessed(stage, TOKEN_ACCURACY)

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Return each text as it was, and as the model writes it again."""
        assert batch.tokens is not None, "view checks the tokens"
        targets = targets_of(batch)
        written = torch.where(targets == IGNORED, batch.tokens, self.predicted(model, batch))
        texts = {"text": torch.where(targets == IGNORED, batch.tokens, targets), "written": written}
        return [
            {name: row_text(tokens, batch, row, decode) for name, tokens in texts.items()}
            for row in range(batch.num_samples)
        ]

    def _logits(self, model: Architecture, batch: Batch) -> tuple[Tensor, Tensor]:
        return scored_rows(model(**batch.inputs()), targets_of(batch), wait=self.few_are_scored)

    def _scores(self, model: Architecture, batch: Batch) -> Scores:
        rows, targets = self._logits(model, batch)
        return score_rows(self.logits, rows, targets, workspace=self.workspace)
