"""Write a target for a source: loss and token accuracy with the true prefix given, exact match without it."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.encoder_decoder import EncoderDecoder
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataSpec
from headtohead.tasks.chunked_cross_entropy import Workspace
from headtohead.tasks.contracts import Loss, Task
from headtohead.tasks.monitoring import direction_of
from headtohead.tasks.sums import PerStage, Sums
from headtohead.tasks.vocabulary import checked_smoothing, loss_of_rows, mean, score_rows, scored_rows, vocabulary_head


class SequenceToSequence(Task):
    """`exact_match` is the share of samples whose greedy, free-running output is the target to the last token."""

    head = "language_model"
    families: ClassVar[tuple[str, ...]] = ("encoder_decoder",)
    data_kinds: ClassVar[tuple[str, ...]] = ("pairs_of_text",)
    metrics: ClassVar[tuple[str, ...]] = ("loss", "token_accuracy", "exact_match")

    def __init__(self, label_smoothing: float = 0.0, monitor: str = "loss") -> None:
        super().__init__()
        self.label_smoothing = checked_smoothing(label_smoothing)
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        self.workspace = Workspace()
        names = ("loss", "correct", "tokens", "matches", "samples")
        self.sums = PerStage(lambda: Sums(*names))

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.tokens is None or batch.decoder_tokens is None or batch.targets is None:
            raise ValueError("task=seq2seq reads sources and targets: choose data of kind pairs_of_text.")
        return batch

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        smoothing = self.label_smoothing if model.training else 0.0
        rows, targets = self._rows(model, batch, wait=False)
        head = vocabulary_head(model)
        return loss_of_rows(head, rows, targets, label_smoothing=smoothing, workspace=self.workspace)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        rows, targets = self._rows(model, batch, wait=True)
        scores = score_rows(vocabulary_head(model), rows, targets, workspace=self.workspace)
        scored, matches = self._matches(model, batch)
        self.sums.add(
            stage,
            loss=scores.loss,
            correct=scores.correct,
            tokens=scores.count,
            matches=matches.sum(),
            samples=scored.sum(),
        )

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        return {
            "loss": mean(sums["loss"], sums["tokens"], "token"),
            "token_accuracy": sums["correct"] / sums["tokens"],
            "exact_match": sums["matches"] / sums["samples"],
        }

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        return {"loss": math.log(spec.vocab_size), "token_accuracy": 1 / spec.vocab_size, "exact_match": 0.0}

    def _rows(self, model: Architecture, batch: Batch, *, wait: bool) -> tuple[Tensor, Tensor]:
        assert batch.targets is not None, "view checks the targets"
        return scored_rows(model.features(**batch.inputs()), batch.targets, wait=wait)

    def _matches(self, model: Architecture, batch: Batch) -> tuple[Tensor, Tensor]:
        """Which samples count, and which of these were written without a mistake, end of sequence included."""
        assert batch.targets is not None and batch.tokens is not None, "view checks them"
        if not isinstance(model, EncoderDecoder):
            raise ValueError(f"task=seq2seq decodes with model=encoder_decoder, not with {type(model).__name__}.")
        written = model.greedy(
            batch.tokens,
            batch.valid,
            max_length=batch.targets.shape[1],
            bos_id=self.spec.bos_id,
            eos_id=self.spec.eos_id,
        )
        counted = batch.targets != IGNORED
        scored = counted.any(1)
        return scored, scored & ((written == batch.targets) | ~counted).all(1)
