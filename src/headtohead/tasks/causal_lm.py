"""Predict the next token: loss, perplexity, bits per byte, token accuracy, and, where the data has them, whole
answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.generated_texts import EXACT_MATCH
from headtohead.metrics.language_modelling import BITS_PER_BYTE, LAST_ACCURACY, LOSS, PERPLEXITY, TOKEN_ACCURACY
from headtohead.metrics.metric import Metric
from headtohead.ranges import Probability
from headtohead.tasks.class_metrics import baseline_guess_from
from headtohead.tasks.generated_text import continuations
from headtohead.tasks.metric_sums import MetricSums, PerStage
from headtohead.tasks.task import Decode, Task
from headtohead.tasks.token_prediction import TokenPrediction, at_target_positions, targets_of
from headtohead.tasks.vocabulary_loss import mean, perplexity

_ALL, _LAST = "targets", "last"
OF_ANSWERS = (EXACT_MATCH.name, LAST_ACCURACY.name)


class CausalLanguageModelling(TokenPrediction):
    """Rows of L + 1 tokens are read as L inputs and L targets; labelled texts, with without_labels, too. Rows that
    bring their own targets, the answers, stay as they are: for these `exact_match` is the share with every answer
    right, `last_accuracy` that with the last one right."""

    head: ClassVar[HeadName] = "language_model"
    counted_by: ClassVar[tuple[str, ...]] = (_ALL, _LAST)
    families: ClassVar[tuple[str, ...]] = ("decoder_only", "external")
    data_kinds: ClassVar[tuple[str, ...]] = ("language",)
    kinds_without_labels: ClassVar[tuple[str, ...]] = ("labelled_text",)
    """The kinds that it also reads with without_labels."""
    metrics: ClassVar[tuple[Metric, ...]] = (
        LOSS,
        PERPLEXITY,
        TOKEN_ACCURACY,
        BITS_PER_BYTE,
        EXACT_MATCH,
        LAST_ACCURACY,
    )

    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("loss", "tokens"),
        "token_accuracy": ("correct", "tokens"),
        "exact_match": ("exact", "rows"),
        "last_accuracy": ("last", "rows"),
    }

    def __init__(self, label_smoothing: Probability = 0.0, monitor: str = "loss", without_labels: bool = False) -> None:
        super().__init__(label_smoothing, monitor)
        self.without_labels = without_labels
        names = ("loss", "correct", "tokens", "bytes_loss", "bytes_tokens", "bytes", "exact", "last", "rows", "blind")
        self.sums = PerStage(lambda: MetricSums(*names))
        self._tokens_per_byte: dict[str, float] = {}
        self._blind_rows: dict[str, float] = {}
        self.has_answers = False
        """Whether the data determines which targets count."""
        self.has_labels = False
        """Whether the targets of rows are labels of whole texts, which are left out here."""

    def bind(self, spec: DataSpec) -> Task:
        if self.monitor in OF_ANSWERS and spec.num_scored is None:
            raise UsageError(
                f"task.monitor={self.monitor} judges answers, and this data brings none: choose loss or token_accuracy."
            )
        if self.monitor == BITS_PER_BYTE.name and spec.num_scored is not None:
            raise UsageError(
                "task.monitor=bits_per_byte measures text, and the answers of this data stand for no bytes: choose "
                "loss, token_accuracy, exact_match or last_accuracy."
            )
        self.has_labels = self.without_labels and spec.kind in self.kinds_without_labels
        if self.monitor == BITS_PER_BYTE.name and self.has_labels:
            raise UsageError(
                "task.monitor=bits_per_byte needs the bytes of each row, which labelled texts do not count: choose "
                "loss, perplexity or token_accuracy."
            )
        self.has_answers = spec.num_scored is not None
        return super().bind(spec)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.targets is not None and not self.has_labels:
            return batch
        if batch.tokens is None:
            raise UsageError("task=causal_lm reads tokens, and this data has none: choose data of kind language.")
        predicted = batch.tokens if batch.original_tokens is None else batch.original_tokens
        targets = predicted[:, 1:].clone()
        if batch.valid is not None:
            targets[~batch.valid[:, 1:]] = IGNORED
        if batch.segments is not None:
            targets[batch.segments[:, 1:] != batch.segments[:, :-1]] = IGNORED
        return replace(
            batch,
            tokens=batch.tokens[:, :-1],
            original_tokens=None,
            targets=targets,
            valid=None if batch.valid is None else _with_a_next(batch.valid),
            segments=_but_last(batch.segments),
            positions=_but_last(batch.positions),
            token_types=_but_last(batch.token_types),
        )

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        scores = self.token_scores(model, model.features(**batch.inputs()), batch)
        self.count_targets(stage, batch)
        self.sums.add(stage, loss=scores.loss, correct=scores.correct, tokens=scores.count)
        if batch.num_bytes is not None:
            self.sums.add(stage, bytes_loss=scores.loss, bytes_tokens=scores.count, bytes=batch.num_bytes)
        by_row: dict[str, Tensor] = {}
        if self.has_answers:
            targets = targets_of(batch)
            is_target, right = targets != IGNORED, at_target_positions(scores.predicted, targets) == targets
            last, answered = _last_of(is_target), is_target.any(1)
            blind = (targets == int(self.in_train()[_ALL].argmax())) | ~is_target
            by_row = {
                "exact": answered & right.all(1),
                "last": answered & right.gather(1, last).squeeze(1),
                "rows": answered,
            }
            counts = {name: hits.sum() for name, hits in by_row.items()}
            self.sums.add(stage, **counts, blind=(answered & blind.all(1)).sum())
        self.keep_rows(stage, scores, batch, **by_row)

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        self.read_targets(stage)
        loss = mean(sums["loss"], sums["tokens"], "token")
        results = {
            "loss": loss,
            "perplexity": perplexity(loss),
            "token_accuracy": sums["correct"] / sums["tokens"],
        }
        if sums["bytes"]:
            results["bits_per_byte"] = sums["bytes_loss"] / math.log(2) / sums["bytes"]
            self._tokens_per_byte[stage] = sums["bytes_tokens"] / sums["bytes"]
        if sums["rows"]:
            results["exact_match"] = sums["exact"] / sums["rows"]
            results["last_accuracy"] = sums["last"] / sums["rows"]
            self._blind_rows[stage] = sums["blind"] / sums["rows"]
        return results

    def chance(self) -> dict[str, float]:
        """Return the metrics of a uniform prediction over tokens."""
        size = self.spec.vocab_size
        return {LOSS.name: math.log(size), PERPLEXITY.name: float(size), TOKEN_ACCURACY.name: 1 / size}

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of a uniform prediction; for answers, those of always naming the most frequent one, each
        position on its own in the longest row."""
        any_answer = baseline_guess_from(spec.answer_shares, spec.vocab_size)
        tokens = {
            "loss": any_answer.loss,
            "perplexity": math.exp(any_answer.loss),
            "token_accuracy": any_answer.accuracy,
        }
        if spec.num_scored is None:
            return tokens
        last_answer = baseline_guess_from(spec.last_answer_shares, spec.vocab_size)
        return {
            **tokens,
            "exact_match": any_answer.accuracy**spec.num_scored,
            "last_accuracy": last_answer.accuracy,
        }

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the loss of the train split's target frequencies, and every other metric of always naming the most
        frequent target."""
        if (guess := self.guess(stage)) is None:
            return {}
        result = {
            LOSS.name: guess.loss,
            PERPLEXITY.name: perplexity(guess.loss),
            TOKEN_ACCURACY.name: guess.accuracy,
        }
        if stage in self._tokens_per_byte:
            result[BITS_PER_BYTE.name] = guess.loss / math.log(2) * self._tokens_per_byte[stage]
        if stage in self._blind_rows and (last := self.guess(stage, _LAST)) is not None:
            result |= {EXACT_MATCH.name: self._blind_rows[stage], LAST_ACCURACY.name: last.accuracy}
        return result

    def counts(self, targets: Int[Tensor, "B L"]) -> dict[str, Tensor]:
        """Count the last target of each row separately too."""
        is_target = targets != IGNORED
        last = targets.gather(1, _last_of(is_target)).squeeze(1)[is_target.any(1)]
        return {**super().counts(targets), _LAST: torch.bincount(last, minlength=self.spec.vocab_size)}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Return the answers beside the model's predictions where data has answers, else the model's continuations of
        plain text."""
        if not self.has_answers:
            return continuations(model, batch, decode, eos_id=self.spec.eos_id)
        assert batch.tokens is not None, "rows with answers have tokens"
        targets, predicted = targets_of(batch), self.predicted(model, batch)
        samples = []
        for tokens, answers, written in zip(batch.tokens, targets, predicted, strict=True):
            is_target = answers != IGNORED
            texts = {"text": tokens, "answers": answers[is_target], "said": written[is_target]}
            samples.append({name: decode(ids.tolist()) for name, ids in texts.items()})
        return samples


def _last_of(is_target: Bool[Tensor, "B L"]) -> Int[Tensor, "B 1"]:
    """Return the position of each row's last target."""
    return (is_target * torch.arange(1, is_target.shape[1] + 1, device=is_target.device)).argmax(1, keepdim=True)


def _with_a_next(valid: Bool[Tensor, "B L"]) -> Bool[Tensor, "B M"]:
    """Drop the final token of every row, which is a target but never an input; a row of one token retains it."""
    return torch.cat([valid[:, :1], valid[:, 2:]], dim=1)


def _but_last(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor[:, :-1]
