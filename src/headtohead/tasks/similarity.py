"""A number for each text or pair of texts, such as the similarity of two sentences (Cer et al. 2017,
https://arxiv.org/abs/1708.00055): squared error, and correlations with human judgements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.heads import Regressor
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.labels import PEARSON, SPEARMAN
from headtohead.metrics.language_modelling import LOSS
from headtohead.metrics.metric import Metric
from headtohead.tasks.class_metrics import wide
from headtohead.tasks.metric_sums import CollectedPerStage, MetricSums, PerStage
from headtohead.tasks.task import Decode, Loss, Task, direction_of, row_text
from headtohead.tasks.token_prediction import targets_of
from headtohead.tasks.vocabulary_loss import mean


class Similarity(Task):
    """`loss` is the mean squared error in the scores' own units. The head's output counts in standard deviations from
    the mean score of the train split, so that an untrained model predicts about that mean, whatever the units."""

    head = "regressor"
    families: ClassVar[tuple[str, ...]] = ("encoder_only", "decoder_only", "text_cnn")
    data_kinds: ClassVar[tuple[str, ...]] = ("scored_text",)
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, PEARSON, SPEARMAN)
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {"loss": ("loss", "samples")}

    def __init__(self, monitor: str = "loss") -> None:
        super().__init__()
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        self.sums = PerStage(lambda: MetricSums("loss", "samples", "of_mean"))
        self.pairs = CollectedPerStage()
        self._of_mean: dict[str, float] = {}

    def bind(self, spec: DataSpec) -> Task:
        if not spec.score_deviation > 0:
            raise UsageError(
                "task=similarity learns scores that differ, and all of the train split are the same: give other data."
            )
        return super().bind(spec)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.targets is None or not batch.targets.is_floating_point() or batch.targets.ndim != 1:
            raise UsageError("task=similarity reads a number for each text: choose data of kind scored_text.")
        return batch

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        return _loss_of(self._scores(model, batch), targets_of(batch))

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        predicted, true = self._scores(model, batch), targets_of(batch)
        loss = _loss_of(predicted, true)
        of_mean = (true.double() - self.spec.score_mean).square().sum()
        self.sums.add(stage, loss=loss.total, samples=loss.count, of_mean=of_mean)
        if stage == "test":
            self.rows.add(batch.rows, loss=(predicted - true).square(), samples=torch.ones_like(true))
        self.pairs.add(stage, *zip(predicted.tolist(), true.tolist(), strict=True))

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        loss = mean(sums["loss"], sums["samples"], "sample")
        predicted, true = np.array(self.pairs.items(stage), dtype=np.float64).T
        self._of_mean[stage] = sums["of_mean"] / sums["samples"]
        return {"loss": loss, "pearson": pearson(predicted, true), "spearman": spearman(predicted, true)}

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of always predicting the mean score."""
        return {"loss": spec.score_deviation**2, "pearson": 0.0, "spearman": 0.0}

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the metrics of always predicting the train split's mean score on the scores of the stage."""
        if stage not in self._of_mean:
            return {}
        return {LOSS.name: self._of_mean[stage], PEARSON.name: 0.0, SPEARMAN.name: 0.0}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        assert batch.tokens is not None, "scored texts have tokens"
        with torch.no_grad():
            predicted = self._scores(model, batch)
        return [
            {
                "text": row_text(batch.tokens, batch, row, decode),
                "truth": f"{float(targets_of(batch)[row]):.2f}",
                "predicted": f"{float(predicted[row]):.2f}",
            }
            for row in range(batch.num_samples)
        ]

    def _scores(self, model: Architecture, batch: Batch) -> Float[Tensor, " B"]:
        """Return scores in the units of the data."""
        if not isinstance(model.head, Regressor):
            raise UsageError(
                f"head={type(model.head).__name__} says no number: build the model with the head that the task names."
            )
        return self.spec.score_mean + self.spec.score_deviation * wide(model(**batch.inputs()))


def _loss_of(predicted: Float[Tensor, " B"], true: Float[Tensor, " B"]) -> Loss:
    total = (predicted - true.to(predicted.dtype)).square().sum()
    return Loss(total=total, count=torch.tensor(len(predicted), device=predicted.device))


def pearson(some: np.ndarray, others: np.ndarray) -> float:
    """Return Pearson's correlation; 0 where either side is constant."""
    one, other = (values - values.mean() for values in (some, others))
    scale = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / scale if scale > 0 and min(np.ptp(some), np.ptp(others)) > 0 else 0.0


def spearman(some: np.ndarray, others: np.ndarray) -> float:
    """Return Spearman's correlation: Pearson's of the ranks."""
    return pearson(ranks(some), ranks(others))


def ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks from 1, the smallest value first; equal values share their mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: np.ndarray = (last - (counts - 1) / 2)[index]
    return means
