"""Predict the next token: loss, perplexity, bits per byte, token accuracy, and, where data asks, whole answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataSpec
from headtohead.tasks.class_labels import guess_from
from headtohead.tasks.contracts import Decode, Task
from headtohead.tasks.sums import PerStage, Sums
from headtohead.tasks.token_prediction import TokenPrediction, placed, targets_of
from headtohead.tasks.vocabulary import mean, perplexity
from headtohead.tasks.writing import continuations

OF_ANSWERS = ("exact_match", "last_accuracy")


class CausalLanguageModelling(TokenPrediction):
    """Rows of L + 1 tokens are read as L inputs and L targets; rows that bring their own targets, the answers, stay as
    they are. Of these `exact_match` is the share with every answer right, `last_accuracy` that with the last one right.
    """

    head = "language_model"
    families: ClassVar[tuple[str, ...]] = ("decoder_only", "recurrent", "external")
    data_kinds: ClassVar[tuple[str, ...]] = ("language",)
    metrics: ClassVar[tuple[str, ...]] = (
        "loss",
        "perplexity",
        "token_accuracy",
        "bits_per_byte",
        "exact_match",
        "last_accuracy",
    )

    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("loss", "tokens"),
        "token_accuracy": ("correct", "tokens"),
        "exact_match": ("exact", "rows"),
        "last_accuracy": ("last", "rows"),
    }

    def __init__(self, label_smoothing: float = 0.0, monitor: str = "loss") -> None:
        super().__init__(label_smoothing, monitor)
        names = ("loss", "correct", "tokens", "bytes_loss", "bytes_tokens", "bytes", "exact", "last", "rows")
        self.sums = PerStage(lambda: Sums(*names))
        self._tokens_per_byte: dict[str, float] = {}
        self.has_answers = False
        """Whether the data says which targets count."""

    def bind(self, spec: DataSpec) -> Task:
        if self.monitor in OF_ANSWERS and spec.num_scored is None:
            raise ValueError(
                f"task.monitor={self.monitor} judges answers, and this data brings none: choose loss or token_accuracy."
            )
        if self.monitor == "bits_per_byte" and spec.num_scored is not None:
            raise ValueError(
                "task.monitor=bits_per_byte measures text, and the answers of this data stand for no bytes: choose "
                "loss, token_accuracy, exact_match or last_accuracy."
            )
        self.has_answers = spec.num_scored is not None
        return super().bind(spec)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.targets is not None:
            return batch
        if batch.tokens is None:
            raise ValueError("task=causal_lm reads tokens, and this data has none: choose data of kind language.")
        targets = batch.tokens[:, 1:].clone()
        if batch.valid is not None:
            targets[~batch.valid[:, 1:]] = IGNORED
        if batch.segments is not None:
            targets[batch.segments[:, 1:] != batch.segments[:, :-1]] = IGNORED
        return replace(
            batch,
            tokens=batch.tokens[:, :-1],
            targets=targets,
            valid=_but_last(batch.valid),
            segments=_but_last(batch.segments),
            positions=_but_last(batch.positions),
            token_types=_but_last(batch.token_types),
        )

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        scores = self.token_scores(model, model.features(**batch.inputs()), batch)
        self.sums.add(stage, loss=scores.loss, correct=scores.correct, tokens=scores.count)
        if batch.num_bytes is not None:
            self.sums.add(stage, bytes_loss=scores.loss, bytes_tokens=scores.count, bytes=batch.num_bytes)
        by_row: dict[str, Tensor] = {}
        if self.has_answers:
            targets = targets_of(batch)
            asked, right = targets != IGNORED, placed(scores.predicted, targets) == targets
            last = (asked * torch.arange(1, asked.shape[1] + 1, device=asked.device)).argmax(1, keepdim=True)
            answered = asked.any(1)
            by_row = {
                "exact": answered & right.all(1),
                "last": answered & right.gather(1, last).squeeze(1),
                "rows": answered,
            }
            self.sums.add(stage, **{name: hits.sum() for name, hits in by_row.items()})
        self.keep_rows(stage, scores, batch, **by_row)

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
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
        return results

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Every token alike; of answers the most frequent one always, each by itself in the longest row."""
        any_answer = guess_from(spec.answer_shares, spec.vocab_size)
        tokens = {
            "loss": any_answer.loss,
            "perplexity": math.exp(any_answer.loss),
            "token_accuracy": any_answer.accuracy,
        }
        if spec.num_scored is None:
            return tokens
        last_answer = guess_from(spec.last_answer_shares, spec.vocab_size)
        return {
            **tokens,
            "exact_match": any_answer.accuracy**spec.num_scored,
            "last_accuracy": last_answer.accuracy,
        }

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Every token alike: how many bytes a token stands for, only texts tell."""
        if stage not in self._tokens_per_byte:
            return {}
        return {"bits_per_byte": math.log2(self.spec.vocab_size) * self._tokens_per_byte[stage]}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Of data with answers these, beside what the model says; of plain text what the model goes on to write."""
        if not self.has_answers:
            return continuations(model, batch, decode, eos_id=self.spec.eos_id)
        assert batch.tokens is not None, "rows with answers have tokens"
        targets, said = targets_of(batch), self.predicted(model, batch)
        samples = []
        for tokens, answers, written in zip(batch.tokens, targets, said, strict=True):
            asked = answers != IGNORED
            texts = {"text": tokens, "answers": answers[asked], "said": written[asked]}
            samples.append({name: decode(ids.tolist()) for name, ids in texts.items()})
        return samples


def _but_last(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor[:, :-1]
