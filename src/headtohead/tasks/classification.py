"""One label per text or image: loss, accuracy, and precision, recall and F1 averaged over the classes."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score, MulticlassPrecision, MulticlassRecall

from headtohead.architectures.contracts import Architecture
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataSpec
from headtohead.tasks.contracts import Loss, Task
from headtohead.tasks.monitoring import direction_of
from headtohead.tasks.sums import PerStage, Sums
from headtohead.tasks.vocabulary import checked_smoothing, mean


class Classification(Task):
    """`accuracy` is the share of right samples; the others are means over classes, so that rare ones count alike."""

    head = "classifier"
    families: ClassVar[tuple[str, ...]] = ("encoder_only", "decoder_only")
    data_kinds: ClassVar[tuple[str, ...]] = ("labelled_text",)
    metrics: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "precision_macro", "recall_macro", "f1_macro")

    def __init__(self, label_smoothing: float = 0.0, monitor: str = "loss") -> None:
        super().__init__()
        self.label_smoothing = checked_smoothing(label_smoothing)
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        self.sums = PerStage(lambda: Sums("loss", "samples"))

    def bind(self, spec: DataSpec) -> Task:
        if spec.num_classes < 2:
            raise ValueError(f"the data has {spec.num_classes} classes: classification needs at least 2.")
        self.scores = PerStage(lambda: _class_metrics(spec.num_classes))
        return super().bind(spec)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.targets is None:
            raise ValueError("this data has no labels: choose data of kind " + " or ".join(self.data_kinds) + ".")
        return batch

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        assert batch.targets is not None, "view checks the targets"
        smoothing = self.label_smoothing if model.training else 0.0
        return _summed_loss(model(**batch.inputs()), batch.targets, smoothing)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        assert batch.targets is not None, "view checks the targets"
        logits = model(**batch.inputs())
        loss = _summed_loss(logits, batch.targets, 0.0)
        self.sums.add(stage, loss=loss.total, samples=loss.count)
        scored = batch.targets != IGNORED
        self.scores.add(stage, logits[scored].argmax(1), batch.targets[scored])

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        loss = mean(sums["loss"], sums["samples"], "sample")
        return {"loss": loss, **{name: float(value) for name, value in self.scores.read(stage).items()}}

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Chance over balanced classes."""
        chance = 1 / spec.num_classes
        return {"loss": math.log(spec.num_classes)} | {name: chance for name in self.metrics if name != "loss"}


class ImageClassification(Classification):
    """The same for images."""

    families: ClassVar[tuple[str, ...]] = ("vision_transformer",)
    data_kinds: ClassVar[tuple[str, ...]] = ("images",)


def _class_metrics(num_classes: int) -> MetricCollection:
    macro: dict[str, Any] = {"num_classes": num_classes, "average": "macro", "validate_args": False}
    return MetricCollection(
        {
            "accuracy": MulticlassAccuracy(num_classes, average="micro", validate_args=False),
            "precision_macro": MulticlassPrecision(**macro),
            "recall_macro": MulticlassRecall(**macro),
            "f1_macro": MulticlassF1Score(**macro),
        },
        # Groups share states that look equal, as small batches do by chance; four small states are cheap.
        compute_groups=False,
    )


def _summed_loss(logits: Float[Tensor, "B C"], targets: Int[Tensor, " B"], label_smoothing: float) -> Loss:
    wide = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    total = F.cross_entropy(wide, targets, reduction="sum", ignore_index=IGNORED, label_smoothing=label_smoothing)
    return Loss(total=total, count=(targets != IGNORED).sum())
