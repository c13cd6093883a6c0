"""Restore hidden tokens (Devlin et al. 2019, https://arxiv.org/abs/1810.04805): 15 % are chosen; of these 80 % become
the mask, 10 % a random token, 10 % stay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.batches.row_order import uniform
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.language_modelling import LOSS, MASKED_ACCURACY, PERPLEXITY
from headtohead.metrics.metric import Metric
from headtohead.ranges import Probability, Share
from headtohead.tasks.metric_sums import MetricSums, PerStage
from headtohead.tasks.task import Decode, row_text
from headtohead.tasks.token_prediction import TokenPrediction, targets_of
from headtohead.tasks.vocabulary_loss import mean, perplexity

# Independent uses of the same row's random numbers.
CHOOSE, CORRUPT, REPLACE = 101, 102, 103
MASK_SHARE, RANDOM_SHARE = 0.8, 0.1


class MaskedLanguageModelling(TokenPrediction):
    """Predict hidden tokens: (seed, epoch, row) alone determines which are hidden; special tokens and padding never
    are."""

    head: ClassVar[HeadName] = "masked_language_model"
    families: ClassVar[tuple[str, ...]] = ("encoder_only", "decoder_only", "external")
    data_kinds: ClassVar[tuple[str, ...]] = ("language", "labelled_text")
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, PERPLEXITY, MASKED_ACCURACY)
    few_are_scored = True
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("loss", "tokens"),
        "masked_accuracy": ("correct", "tokens"),
    }

    def __init__(self, mask_rate: Share = 0.15, label_smoothing: Probability = 0.0, monitor: str = "loss") -> None:
        super().__init__(label_smoothing, monitor)
        if not 0 < mask_rate <= 1:
            raise UsageError(f"task.mask_rate={mask_rate} must be above 0 and at most 1.")
        self.mask_rate = mask_rate
        self.sums = PerStage(lambda: MetricSums("loss", "correct", "tokens"))

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        if batch.tokens is None:
            raise UsageError("task=masked_lm reads tokens, and this data has none: choose data of kind language.")
        spec, tokens = self.spec, batch.tokens
        if spec.mask_id < 0:
            raise UsageError(
                "task=masked_lm hides tokens behind a mask token, and the tokenizer of init_from has none: choose a "
                "checkpoint that was trained with one, such as BERT's, or task=causal_lm"
            )

        def draw(stream: int) -> Float[Tensor, "B L"]:
            drawn = uniform(batch.rows.numpy(), tokens.shape[1], seed=seed, epoch=epoch, stream=stream)
            return torch.from_numpy(drawn)

        chosen = ~spec.are_special(tokens) & (draw(CHOOSE) < self.mask_rate)
        if batch.valid is not None:
            chosen &= batch.valid
        how = draw(CORRUPT)
        masked = chosen & (how < MASK_SHARE)
        randomised = chosen & (how >= MASK_SHARE) & (how < MASK_SHARE + RANDOM_SHARE)
        words = spec.text_ids[(draw(REPLACE) * len(spec.text_ids)).long()].to(tokens.dtype)
        corrupted = torch.where(randomised, words, tokens).masked_fill(masked, spec.mask_id)
        truth = tokens if batch.original_tokens is None else batch.original_tokens
        targets = torch.where(chosen, truth, IGNORED)
        return replace(batch, tokens=corrupted, original_tokens=None, targets=targets, num_bytes=None)

    def num_scored(self, length: int) -> int:
        """Return the expected number of hidden tokens in a row of this length."""
        return max(1, round(self.mask_rate * length))

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        self.measure_tokens(stage, model, model.features(**batch.inputs()), batch)

    def measure_tokens(
        self,
        stage: Literal["validation", "test"],
        model: Architecture,
        features: Float[Tensor, "B L D"],
        batch: Batch,
    ) -> None:
        scores = self.token_scores(model, features, batch)
        self.count_targets(stage, batch)
        self.sums.add(stage, loss=scores.loss, correct=scores.correct, tokens=scores.count)
        self.keep_rows(stage, scores, batch)

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        self.read_targets(stage)
        loss = mean(sums["loss"], sums["tokens"], "masked token")
        return {
            "loss": loss,
            "perplexity": perplexity(loss),
            "masked_accuracy": sums["correct"] / sums["tokens"],
        }

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of a uniform prediction over tokens."""
        size = spec.vocab_size
        return {"loss": math.log(size), "perplexity": float(size), "masked_accuracy": 1 / size}

    def chance(self) -> dict[str, float]:
        """Return the metrics of a uniform prediction over tokens."""
        size = self.spec.vocab_size
        return {LOSS.name: math.log(size), PERPLEXITY.name: float(size), MASKED_ACCURACY.name: 1 / size}

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the loss of the train split's token frequencies, and the accuracy of always naming its most frequent
        token."""
        return self.guessed(stage, MASKED_ACCURACY)

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Return each text with its masks, as the model fills it, and as it was."""
        assert batch.tokens is not None, "view checks the tokens"
        targets = targets_of(batch)
        chosen = targets != IGNORED
        filled = torch.where(chosen, self.predicted(model, batch), batch.tokens)
        truth = torch.where(chosen, targets, batch.tokens)
        texts = {"read": batch.tokens, "filled": filled, "truth": truth}
        return [
            {name: row_text(tokens, batch, row, decode) for name, tokens in texts.items()}
            for row in range(batch.num_samples)
        ]
