"""Write a target for a source: loss and token accuracy with the true prefix given, exact match without it."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.decoding import Decodes
from headtohead.architectures.heads import HeadName
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataSpec
from headtohead.generation.loop import greedy
from headtohead.tasks.contracts import Decode
from headtohead.tasks.reading import row_text
from headtohead.tasks.sums import PerStage, Sums
from headtohead.tasks.token_prediction import TokenPrediction, targets_of
from headtohead.tasks.vocabulary import mean
from headtohead.tasks.writing import until


class SequenceToSequence(TokenPrediction):
    """`exact_match` is the share of samples whose greedy, free-running output is the target to the last token."""

    head: ClassVar[HeadName] = "language_model"
    families: ClassVar[tuple[str, ...]] = ("encoder_decoder", "recurrent_encoder_decoder")
    data_kinds: ClassVar[tuple[str, ...]] = ("pairs_of_text",)
    metrics: ClassVar[tuple[str, ...]] = ("loss", "token_accuracy", "exact_match")
    measured_as = "SequenceToSequence"

    def __init__(self, label_smoothing: float = 0.0, monitor: str = "loss") -> None:
        super().__init__(label_smoothing, monitor)
        names = ("loss", "correct", "tokens", "matches", "samples")
        self.sums = PerStage(lambda: Sums(*names))

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.tokens is None or batch.decoder_tokens is None or batch.targets is None:
            raise ValueError("task=seq2seq reads sources and targets: choose data of kind pairs_of_text.")
        return batch

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        scores = self.token_scores(model, model.features(**batch.inputs()), batch)
        truth = self.truth(batch)
        counted = truth != IGNORED
        scored = counted.any(1)
        matches = scored & ((self.written(model, batch) == truth) | ~counted).all(1)
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
        """Every token alike, with which hardly any target is ever written."""
        return {"loss": math.log(spec.vocab_size), "token_accuracy": 1 / spec.vocab_size, "exact_match": 0.0}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Source, target, and what the model writes by itself."""
        assert batch.tokens is not None, "view checks the tokens"
        targets, sources = self.truth(batch), self.sources(batch)
        samples = []
        for row, ids in enumerate(self.written(model, batch).tolist()):
            truth = targets[row][targets[row] != IGNORED]
            samples.append(
                {
                    "source": row_text(batch.tokens, sources, row, decode),
                    "truth": decode(truth.tolist()),
                    "written": decode(until(ids, self.spec.eos_id)),
                }
            )
        return samples

    def truth(self, batch: Batch) -> Int[Tensor, "B T"]:
        """What is to be written, each row from its first token on."""
        return targets_of(batch)

    def sources(self, batch: Batch) -> Batch:
        """The batch with what of `tokens` is the source marked as valid."""
        return batch

    def written(self, model: Architecture, batch: Batch) -> Int[Tensor, "B T"]:
        """As many tokens as the longest target has, the end of a shorter output repeated."""
        assert batch.tokens is not None, "view checks the tokens"
        if not isinstance(model, Decodes) or not model.reads_source:
            raise ValueError(
                f"task=seq2seq decodes with a model such as encoder_decoder, not with {type(model).__name__}."
            )
        return greedy(
            model,
            batch.tokens,
            batch.valid,
            max_length=targets_of(batch).shape[1],
            bos_id=self.spec.bos_id,
            eos_id=self.spec.eos_id,
        )
