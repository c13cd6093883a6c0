"""One label per text or image: loss, accuracy, precision, recall and F1 averaged over the classes, confusion matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
import torchmetrics
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics.classification import MulticlassConfusionMatrix

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.labels import ACCURACY, F1_SECOND_CLASS, PRECISION_MACRO, RECALL_MACRO
from headtohead.metrics.language_modelling import LOSS
from headtohead.metrics.metric import Cell, Metric, MetricTable
from headtohead.ranges import Probability
from headtohead.tasks.class_metrics import (
    OF_CLASSES,
    ClassTotals,
    class_loss,
    class_name,
    class_names,
    figures_of,
    guessed_classes,
    losses_of_rows,
    soft_class_loss,
    wide,
)
from headtohead.tasks.metric_sums import Arrays, MetricSums, PerStage
from headtohead.tasks.task import Decode, Loss, Task, direction_of, row_text
from headtohead.tasks.vocabulary_loss import checked_smoothing, mean

OF_TWO = F1_SECOND_CLASS.name
MOST_IN_MATRIX = 1000
"""The classes of which a matrix of confusion is counted and written: those of ImageNet."""
OF_A_CLASS = ("class", "precision", "recall", "f1", "rows")


class Classification(Task):
    """`accuracy` is the share of right samples; macro averages are means over classes, so that rare ones count too.

    `matthews` is the correlation of predicted with true classes (Matthews 1975), as published for CoLA; of two classes,
    `f1_second_class` is the F1 of detecting the second, as published for MRPC and QQP.
    """

    head: ClassVar[HeadName] = "classifier"
    families: ClassVar[tuple[str, ...]] = (
        "encoder_only",
        "decoder_only",
        "text_cnn",
        "bag_of_words",
        "mlp",
        "external",
    )
    data_kinds: ClassVar[tuple[str, ...]] = ("labelled_text",)
    other_classes: ClassVar[str] = "give rows of another, or the column that holds the classes, data.label_column."
    """The remedy where there is one class alone."""
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, *OF_CLASSES)

    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("loss", "samples"),
        "accuracy": ("correct", "samples"),
    }

    def __init__(self, label_smoothing: Probability = 0.0, monitor: str = "loss") -> None:
        super().__init__()
        self.label_smoothing = checked_smoothing(label_smoothing)
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        self.sums = PerStage(lambda: MetricSums("loss", "samples"))
        self._totals: dict[str, ClassTotals] = {}
        self._confusion: dict[str, list[list[int]]] = {}

    def bind(self, spec: DataSpec) -> Task:
        if self.monitor == OF_TWO and spec.num_classes != 2:
            raise UsageError(
                f"task.monitor={OF_TWO} judges two classes, and this data has {spec.num_classes}: choose f1_macro."
            )
        if spec.num_classes < 2:
            names = f" ({', '.join(spec.class_names)})" if spec.class_names else ""
            raise UsageError(
                f"the data has {spec.num_classes} {'class' if spec.num_classes == 1 else 'classes'}{names}: "
                f"classification needs at least 2; {self.other_classes}"
            )
        self._has_matrix = spec.num_classes <= MOST_IN_MATRIX
        self.scores = PerStage(lambda: _counter(spec.num_classes, matrix=self._has_matrix))
        return super().bind(spec)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.targets is None:
            raise UsageError("this data has no labels: choose data of kind " + " or ".join(self.data_kinds) + ".")
        return batch

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        smoothing = self.label_smoothing if model.training else 0.0
        logits, labels = model(**batch.inputs()), _labels(batch)
        if batch.soft_targets is not None:
            return soft_class_loss(logits, batch.soft_targets, labels, label_smoothing=smoothing)
        return class_loss(logits, labels, label_smoothing=smoothing)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        logits, labels = model(**batch.inputs()), _labels(batch)
        loss = class_loss(logits, labels)
        self.sums.add(stage, loss=loss.total, samples=loss.count)
        scored = labels != IGNORED
        self.keep_rows(stage, logits, labels, batch)
        self.count(stage, logits[scored].argmax(1), labels[scored])

    def keep_rows(self, stage: str, logits: Float[Tensor, "B C"], labels: Int[Tensor, " B"], batch: Batch) -> None:
        """Record the loss and the hit of each row of a test."""
        if stage == "test" and self.rows.enabled:
            scored = labels != IGNORED
            right = scored & (logits.argmax(1) == labels)
            self.rows.add(batch.rows, loss=losses_of_rows(logits, labels), correct=right, samples=scored)

    def count(
        self, stage: Literal["validation", "test"], predicted: Int[Tensor, " N"], labels: Int[Tensor, " N"]
    ) -> None:
        """Count predicted against true labels."""
        if self._has_matrix:
            self.scores.add(stage, predicted, labels)
            return
        count = partial(torch.bincount, minlength=self.spec.num_classes)
        right = count(labels[predicted == labels])
        self.scores.add(stage, right=right, true=count(labels), predicted=count(predicted))

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums, counts = self.sums.read(stage), self.scores.read(stage)
        loss = mean(sums["loss"], sums["samples"], "sample")
        if self._has_matrix:
            self._confusion[stage] = confusion = torch.as_tensor(counts).tolist()
            totals = ClassTotals.of(confusion)
        else:
            totals = ClassTotals(**{name: np.asarray(values) for name, values in counts.items()})
        self._totals[stage] = totals
        return {LOSS.name: loss, **figures_of(totals)}

    def chance(self) -> dict[str, float]:
        """Return the metrics of a uniform guess over the classes."""
        share = 1 / self.spec.num_classes
        alike = dict.fromkeys((ACCURACY.name, PRECISION_MACRO.name, RECALL_MACRO.name), share)
        return {LOSS.name: math.log(self.spec.num_classes), **alike}

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of always naming the largest class; chance where no shares are known."""
        return guessed_classes(spec, spec.class_shares or [1.0] * spec.num_classes)

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the metrics of always naming the train split's largest class on the stage's labels."""
        return guessed_classes(self.spec, self._totals[stage].true) if stage in self._totals else {}

    def tables(self, stage: Literal["validation", "test"]) -> dict[str, MetricTable]:
        """Return the metrics of each class, and the confusion matrix, true classes as rows and predicted ones as
        columns, where they are not too many."""
        if stage not in self._totals:
            return {}
        names = class_names(self.spec)
        tables = {"per_class": MetricTable(OF_A_CLASS, tuple(_of_each_class(names, self._totals[stage])))}
        if self._has_matrix:
            rows = zip(names, self._confusion[stage], strict=True)
            cells: list[tuple[Cell, ...]] = [(name, *counts) for name, counts in rows]
            tables["confusion_matrix"] = MetricTable(("true, predicted", *names), tuple(cells), is_matrix=True)
        return tables

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        with torch.no_grad():
            shares, predicted = wide(model(**batch.inputs())).softmax(-1).max(-1)
        return [
            {
                **_shown(batch, row, decode),
                "truth": class_name(self.spec, int(_labels(batch)[row])),
                "predicted": class_name(self.spec, int(predicted[row])),
                "confidence": f"{float(shares[row]):.3f}",
            }
            for row in range(batch.num_samples)
        ]


class ImageClassification(Classification):
    """The same for images."""

    families: ClassVar[tuple[str, ...]] = (
        "vision_transformer",
        "swin",
        "cnn",
        "resnet",
        "convnext",
        "mlp",
        "external",
    )
    data_kinds: ClassVar[tuple[str, ...]] = ("images",)
    other_classes = "give a folder of images for each, or choose task=masked_image_modeling, which needs none."


def _counter(num_classes: int, *, matrix: bool) -> torchmetrics.Metric:
    if matrix:
        return MulticlassConfusionMatrix(num_classes, validate_args=False)
    return Arrays(dict.fromkeys(("right", "true", "predicted"), (num_classes,)))


def _of_each_class(names: Sequence[str], totals: ClassTotals) -> Iterator[tuple[Cell, ...]]:
    """Yield name, precision, recall, F1 and count of each class; 0 where a class is never predicted or never true."""
    counts = (part.astype(int).tolist() for part in (totals.right, totals.true, totals.predicted))
    for name, right, true, predicted in zip(names, *counts, strict=True):
        precision, recall = right / max(predicted, 1), right / max(true, 1)
        yield name, precision, recall, 2 * right / max(predicted + true, 1), true


def _labels(batch: Batch) -> Tensor:
    assert batch.targets is not None, "view checks the targets"
    return batch.targets


def _shown(batch: Batch, row: int, decode: Decode) -> dict[str, str]:
    """Return a text as it is, and an image as its row number in the split."""
    if batch.tokens is None:
        return {"row": str(int(batch.rows[row]))}
    return {"text": row_text(batch.tokens, batch, row, decode)}
