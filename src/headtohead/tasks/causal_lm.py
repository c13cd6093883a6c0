"""Predict the next token: loss, perplexity, bits per byte, token accuracy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataSpec
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


class CausalLanguageModelling(Task):
    """Rows of L + 1 tokens are read as L inputs and L targets; rows that bring their own targets stay as they are."""

    head = "language_model"
    families: ClassVar[tuple[str, ...]] = ("decoder_only",)
    data_kinds: ClassVar[tuple[str, ...]] = ("language",)
    metrics: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "token_accuracy", "bits_per_byte")

    def __init__(self, label_smoothing: float = 0.0, monitor: str = "loss") -> None:
        super().__init__()
        self.label_smoothing = checked_smoothing(label_smoothing)
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        self.workspace = Workspace()
        self.sums = PerStage(lambda: Sums("loss", "correct", "tokens", "bytes_loss", "bytes"))

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
        if batch.num_bytes is not None:
            self.sums.add(stage, bytes_loss=scores.loss, bytes=batch.num_bytes)

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
        return results

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        size = spec.vocab_size
        return {"loss": math.log(size), "perplexity": float(size), "token_accuracy": 1 / size}

    def _rows(self, model: Architecture, batch: Batch) -> tuple[Tensor, Tensor]:
        assert batch.targets is not None, "view makes the targets"
        return scored_rows(model.features(**batch.inputs()), batch.targets, wait=False)


def _but_last(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor[:, :-1]
