"""Restore hidden tokens, and say whether the second sentence follows the first: BERT's two objectives together
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

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.heads import HeadName
from headtohead.architectures.vocabulary_heads import MaskedLanguageModelAndPair
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.accuracy import ACCURACY
from headtohead.metrics.loss import LOSS
from headtohead.metrics.metric import Metric
from headtohead.metrics.next_sentence_accuracy import NEXT_SENTENCE_ACCURACY
from headtohead.ranges import Probability, Share
from headtohead.tasks.class_labels import class_name, guess, guessed_classes, wide
from headtohead.tasks.contracts import Decode, Loss, Task
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.tasks.sums import PerStage, Sums
from headtohead.tasks.token_prediction import targets_of
from headtohead.tasks.vocabulary import mean

_SUCH_AS = "data=pair_grammar data.relation=next"


class MaskedLanguageModellingWithNextSentence(MaskedLanguageModelling):
    """Both losses count alike: `loss` is the mean over hidden tokens plus the mean over pairs.

    In training, where all is a sum over hidden tokens, a pair weighs as many of these as its row has on average.
    """

    head: ClassVar[HeadName] = "masked_language_model_and_pair"
    families: ClassVar[tuple[str, ...]] = ("encoder_only", "recurrent")
    data_kinds: ClassVar[tuple[str, ...]] = ("labelled_text",)
    metrics: ClassVar[tuple[Metric, ...]] = (*MaskedLanguageModelling.metrics, NEXT_SENTENCE_ACCURACY)
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {"masked_accuracy": ("correct", "tokens")}

    def __init__(self, mask_rate: Share = 0.15, label_smoothing: Probability = 0.0, monitor: str = "loss") -> None:
        super().__init__(mask_rate, label_smoothing, monitor)
        self._kinds: dict[str, tuple[float, float]] = {}
        self.pair_sums = PerStage(lambda: Sums("loss", "correct", "pairs", "seconds"))

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
        return Loss(total=tokens.total + (losses * self._expected(batch)).sum(), count=tokens.count)

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
        """Every token alike, and the more frequent kind of pair."""
        tokens, pairs = super().baseline(spec), guess(spec)
        return {**tokens, "loss": tokens["loss"] + pairs.loss, "next_sentence_accuracy": pairs.accuracy}

    def chance(self) -> dict[str, float]:
        """Every token and either kind of pair alike."""
        tokens = super().chance()
        return {**tokens, LOSS.name: tokens[LOSS.name] + math.log(2), NEXT_SENTENCE_ACCURACY.name: 0.5}

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """What the train split's tokens and kinds of pairs tell, together."""
        if stage not in self._kinds:
            return {}
        tokens, pairs = super().measured_baseline(stage), guessed_classes(self.spec, self._kinds[stage])
        loss = tokens[LOSS.name] + pairs[LOSS.name]
        return {**tokens, LOSS.name: loss, NEXT_SENTENCE_ACCURACY.name: pairs[ACCURACY.name]}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        samples, labels = super().samples(model, batch, decode), _labels(batch)
        with torch.no_grad():
            said = self._pair_logits(model, model.features(**batch.inputs()), batch).argmax(1)
        return [
            {**sample, "pair": class_name(self.spec, label), "said of the pair": class_name(self.spec, predicted)}
            for sample, label, predicted in zip(samples, labels.tolist(), said.tolist(), strict=True)
        ]

    def _expected(self, batch: Batch) -> Float[Tensor, " B"]:
        """How many tokens of each row are hidden on average."""
        assert batch.tokens is not None, "view checks the tokens"
        open_to_choice = ~self.spec.are_special(batch.tokens) | (targets_of(batch) != IGNORED)
        if batch.valid is not None:
            open_to_choice &= batch.valid
        return self.mask_rate * open_to_choice.sum(1)

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
