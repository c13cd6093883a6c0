"""Every task defines how a batch is presented, which loss is minimised, and what is measured; no optimizer here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSource, DataSpec
from headtohead.errors import UsageError
from headtohead.metrics import Direction, Metric
from headtohead.metrics.metric import MetricTable
from headtohead.tasks.metric_sums import RowScores

Stage = Literal["train", "validation", "test"]
Decode = Callable[[Sequence[int]], str]
"""Token ids as text."""


@dataclass(frozen=True)
class Loss:
    """A sum and the count it is over, so that any number of batches and devices can be combined exactly."""

    total: Tensor
    count: Tensor

    @property
    def mean(self) -> Tensor:
        return self.total / self.count.clamp(min=1)


class Task(nn.Module, ABC):
    """Objective, head and metrics.

    `validation` and `test` metrics are accumulated by `measure` and read by `results`, as sums and counts reduced
    over devices; results always hold "loss".
    """

    head: ClassVar[HeadName]
    head_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of the task that its head is built with."""
    families: ClassVar[tuple[str, ...]]
    """Architecture families that can do this task."""
    data_kinds: ClassVar[tuple[str, ...]]
    """DataSpec.kind values that this task can read."""
    compares_rows: ClassVar[bool] = False
    """Whether the loss of a row depends on which others are in its batch."""
    keeps_documents_apart: ClassVar[bool] = True
    """Whether documents that share a row remain apart in what the task makes of it."""
    metrics: ClassVar[tuple[Metric, ...]]
    """All that its results can hold."""
    _spec: DataSpec | None = None
    monitor: str
    """The metric that selects the best checkpoint, without its stage: "loss"."""
    direction: Direction
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """The sums of single rows in numerator and denominator, by metric; metrics of the whole set have none."""
    measured_as: ClassVar[str | None] = None
    """The task whose metrics these are, where several tasks measure the same; None: those of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = RowScores()
        """Sums of single rows of a test, where they are requested."""

    def bind(self, spec: DataSpec) -> Task:
        """Bind the task to the description of its data, once, before anything else; tasks that need more build it
        here."""
        self._spec = spec
        return self

    @contextmanager
    def on_rows_of(self, spec: DataSpec) -> Iterator[None]:
        """Read rows as long as those of other data of the same kind within this block."""
        own = self.spec
        self._spec = replace(own, max_length=spec.max_length, max_target_length=spec.max_target_length)
        try:
            yield
        finally:
            self._spec = own

    @property
    def spec(self) -> DataSpec:
        if self._spec is None:
            raise UsageError(f"{type(self).__name__} knows no data yet: call bind(spec) with the DataSpec first.")
        return self._spec

    @abstractmethod
    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        """Return the batch as this objective presents it: shifted, masked, or as it is. Runs beside the loader, on the
        CPU."""

    def training_view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        """Return the view of rows of the train split for training: prompt examples from that split must not be the row
        itself."""
        return self.view(batch, seed=seed, epoch=epoch)

    def num_scored(self, length: int) -> int | None:
        """Return the number of positions in a row of this length whose logits the loss reads; None means all."""
        del length
        return self.spec.num_scored

    def rows_read(self, spec: DataSpec) -> DataSpec | None:
        """Return the description of the rows that a model reads, where the task writes rows of its own from data with
        this description; None where rows are the data's."""
        del spec
        return None

    def prompt(self, text: str) -> list[int] | None:
        """Return what a model reads before it writes, where the task frames texts in a way of its own; None where they
        are framed as the data's are."""
        del text
        return None

    def text_of(self, tokens: Sequence[int], decode: Decode) -> str:
        """Return tokens as text, those that the task has added to the vocabulary by name."""
        return decode(tokens)

    def measured_how(self) -> str:
        """Return what runs must share for their metrics to be comparable."""
        return self.measured_as or type(self).__name__

    def counted(self, batch: Batch) -> int:
        """Return the count that `loss` will have, before a model has read the batch: the number of scored targets."""
        return 0 if batch.targets is None else int((batch.targets != IGNORED).sum())

    @abstractmethod
    def loss(self, model: Architecture, batch: Batch) -> Loss:
        """Return the loss that training minimises; label smoothing and the like act in training mode only. Total and
        count of a batch are the sums of those of its parts."""

    @abstractmethod
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        """Add a batch to the metrics of a stage."""

    @abstractmethod
    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the metrics of a stage over all batches and devices, and start afresh."""

    def chance(self) -> dict[str, float]:
        """Return, by metric name, the score of a model that knows neither inputs nor how often targets occur; called
        after bind. Metrics that depend on the rows are left out."""
        return {}

    @abstractmethod
    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return, by metric name, the score of a model that learned nothing: chance, or ln(V)."""

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the same for metrics that depend on the rows behind the stage's last results, such as the length of
        their contexts."""
        del stage
        return {}

    def use_selected(self, selected: Mapping[str, float]) -> None:
        """Take over what the validation of the selected weights chose, by the names of its results, before they are
        tested: a threshold."""
        del selected

    def files(self, stage: Literal["validation", "test"]) -> Mapping[str, object]:
        """Return what the stage's last results rest on, sample by sample, by the name of a JSON file: predictions in a
        published format."""
        del stage
        return {}

    def tables(self, stage: Literal["validation", "test"]) -> dict[str, MetricTable]:
        """Return those of the stage's last results that need a table, by name."""
        del stage
        return {}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Return a readable account of the model's output for each row of a batch made by `view`. Uses no random
        generator."""
        del model, batch, decode
        return []


def direction_of(monitor: str, metrics: Sequence[Metric]) -> Direction:
    """Return which way of the monitored metric is better; a ValueError names the choices."""
    known = {metric.name: metric.direction for metric in metrics if metric.direction is not None}
    if monitor not in known:
        raise UsageError(f"task.monitor={monitor!r} is not a metric of this task: choose one of {', '.join(known)}.")
    return known[monitor]


BETWEEN = " | "
"""Stands between the two texts of a pair."""


def row_text(tokens: Int[Tensor, "B L"], batch: Batch, row: int, decode: Decode) -> str:
    """Return the text of a row of the batch, or of other tokens at its positions, without padding."""
    ids = tokens[row]
    is_real = torch.ones_like(ids, dtype=torch.bool) if batch.valid is None else batch.valid[row]
    if batch.token_types is None:
        return decode(ids[is_real].tolist())
    second = batch.token_types[row] == 1
    return BETWEEN.join(decode(ids[is_real & part].tolist()).strip() for part in (~second, second))


def spec_as_read(task: Task, data: DataSource) -> DataSpec:
    """Return the data's description with the lengths that the model reads, as the task says them or measured on one
    row."""
    spec = data.spec()
    if (own := task.rows_read(spec)) is not None:
        return own
    row = data.split("train").batch(np.zeros(1, dtype=np.int64))
    view = task.view(row, seed=0, epoch=0)
    if row.tokens is None or view.tokens is None:
        return spec
    if row.decoder_tokens is not None and view.decoder_tokens is None:
        return replace(spec, max_length=spec.max_length + spec.max_target_length, max_target_length=0)
    return replace(spec, max_length=spec.max_length - (row.tokens.shape[1] - view.tokens.shape[1]))
