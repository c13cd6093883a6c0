"""Restore hidden tokens, and predict whether the second sentence follows the first: BERT's two objectives together
(Devlin et al. 2019, https://arxiv.org/abs/1810.04805, section 3.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.vocabulary_heads import MaskedLanguageModelAndPair
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.labels import ACCURACY
from headtohead.metrics.language_modelling import LOSS, NEXT_SENTENCE_ACCURACY
from headtohead.metrics.metric import Metric
from headtohead.ranges import Probability, Share
from headtohead.tasks.class_metrics import baseline_guess, class_name, guessed_classes, wide
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.tasks.metric_sums import MetricSums, PerStage
from headtohead.tasks.task import Decode, Loss, Task
from headtohead.tasks.token_prediction import targets_of
from headtohead.tasks.vocabulary_loss import mean

_SUCH_AS = "data=pair_grammar data.relation=next"


class MaskedLanguageModellingWithNextSentence(MaskedLanguageModelling):
    """Both losses weigh the same: `loss` is the mean over hidden tokens plus the mean over pairs.

    A training loss sums over hidden tokens, so that a pair weighs as many of these as its row has on average.
    """

    head: ClassVar[HeadName] = "masked_language_model_and_pair"
    families: ClassVar[tuple[str, ...]] = ("encoder_only", "decoder_only")
    data_kinds: ClassVar[tuple[str, ...]] = ("labelled_text",)
    metrics: ClassVar[tuple[Metric, ...]] = (*MaskedLanguageModelling.metrics, NEXT_SENTENCE_ACCURACY)
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {"masked_accuracy": ("correct", "tokens")}

    def __init__(self, mask_rate: Share = 0.15, label_smoothing: Probability = 0.0, monitor: str = "loss") -> None:
        super().__init__(mask_rate, label_smoothing, monitor)
        self._kinds: dict[str, tuple[float, float]] = {}
        self.pair_sums = PerStage(lambda: MetricSums("loss", "correct", "pairs", "seconds"))

    def bind(self, spec: DataSpec) -> Task:
        if spec.num_texts != 2:
            raise UsageError(
                "task=masked_lm_next_sentence reads labelled pairs of sentences, and a row of this data is one text: "
                f"choose data of sentence pairs, such as {_SUCH_AS}, or task=masked_lm."
            )
        if spec.num_classes != 2:
            raise UsageError(
                f"task=masked_lm_next_sentence tells two kinds of pairs apart, and this data has {spec.num_classes} "
                f"classes: choose data of sentence pairs with 2 classes, such as {_SUCH_AS}."
            )
        return super().bind(spec)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        assert batch.token_types is not None and batch.targets is not None, "bind checks the data"
        return replace(super().view(batch, seed=seed, epoch=epoch), labels=batch.targets)

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        features = model.features(**batch.inputs())
        tokens = self.token_loss(model, features, batch)
        losses = F.cross_entropy(self._pair_logits(model, features, batch), _labels(batch), reduction="none")
        return Loss(total=tokens.total + (losses * self._expected(batch, losses.dtype)).sum(), count=tokens.count)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        features, labels = model.features(**batch.inputs()), _labels(batch)
        self.measure_tokens(stage, model, features, batch)
        logits = self._pair_logits(model, features, batch)
        self.pair_sums.add(
            stage,
            loss=F.cross_entropy(logits, labels, reduction="sum"),
            correct=(logits.argmax(1) == labels).sum(),
            pairs=len(labels),
            seconds=labels.sum(),
        )

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        tokens, pairs = super().results(stage), self.pair_sums.read(stage)
        self._kinds[stage] = (pairs["pairs"] - pairs["seconds"], pairs["seconds"])
        return {
            **tokens,
            "loss": tokens["loss"] + mean(pairs["loss"], pairs["pairs"], "pair"),
            "next_sentence_accuracy": pairs["correct"] / pairs["pairs"],
        }

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of a uniform prediction over tokens, and of always naming the more frequent kind of
        pair."""
        tokens, pairs = super().baseline(spec), baseline_guess(spec)
        return {**tokens, "loss": tokens["loss"] + pairs.loss, "next_sentence_accuracy": pairs.accuracy}

    def chance(self) -> dict[str, float]:
        """Return the metrics of a uniform guess over tokens and over the two kinds of pairs."""
        tokens = super().chance()
        return {**tokens, LOSS.name: tokens[LOSS.name] + math.log(2), NEXT_SENTENCE_ACCURACY.name: 0.5}

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the metrics of a guess from the train split's frequencies of tokens and kinds of pairs."""
        if stage not in self._kinds:
            return {}
        tokens, pairs = super().measured_baseline(stage), guessed_classes(self.spec, self._kinds[stage])
        loss = tokens[LOSS.name] + pairs[LOSS.name]
        return {**tokens, LOSS.name: loss, NEXT_SENTENCE_ACCURACY.name: pairs[ACCURACY.name]}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        samples, labels = super().samples(model, batch, decode), _labels(batch)
        with torch.no_grad():
            predicted = self._pair_logits(model, model.features(**batch.inputs()), batch).argmax(1)
        return [
            {**sample, "pair": class_name(self.spec, label), "said of the pair": class_name(self.spec, predicted)}
            for sample, label, predicted in zip(samples, labels.tolist(), predicted.tolist(), strict=True)
        ]

    def _expected(self, batch: Batch, dtype: torch.dtype) -> Float[Tensor, " B"]:
        """Return the expected number of hidden tokens in each row."""
        assert batch.tokens is not None, "view checks the tokens"
        open_to_choice = ~self.spec.are_special(batch.tokens) | (targets_of(batch) != IGNORED)
        if batch.valid is not None:
            open_to_choice &= batch.valid
        return self.mask_rate * open_to_choice.sum(1).to(dtype)

    def _pair_logits(self, model: Architecture, features: Tensor, batch: Batch) -> Float[Tensor, "B 2"]:
        if not isinstance(model.head, MaskedLanguageModelAndPair):
            raise UsageError(
                f"head={type(model.head).__name__} says nothing of pairs, which this task does: build the model with "
                "the head that the task names."
            )
        return wide(model.head.pair_logits(features, batch.valid))


def _labels(batch: Batch) -> Tensor:
    assert batch.labels is not None, "view moves them here"
    return batch.labels
