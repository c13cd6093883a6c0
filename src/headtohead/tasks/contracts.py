"""What every task promises: how a batch is seen, what is lost, and what is measured. No optimizer here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.heads import HeadName
from headtohead.data.batch import Batch
from headtohead.data.contracts import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics import Direction, Metric
from headtohead.tasks.row_scores import RowScores
from headtohead.tasks.tables import Table

Stage = Literal["train", "validation", "test"]
Decode = Callable[[Sequence[int]], str]
"""Token ids as text."""


@dataclass(frozen=True)
class Loss:
    """A sum and what it is a sum over, so that any number of batches and devices can be put together exactly."""

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
    families: ClassVar[tuple[str, ...]]
    """Architecture families that can do this task."""
    data_kinds: ClassVar[tuple[str, ...]]
    """DataSpec.kind values that this task can read."""
    metrics: ClassVar[tuple[Metric, ...]]
    """All that its results can hold."""
    _spec: DataSpec | None = None
    monitor: str
    """The metric that selects the best checkpoint, without its stage: "loss"."""
    direction: Direction
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """By metric the sums of single rows that are above and below the line; metrics of the whole set have none."""
    measured_as: ClassVar[str | None] = None
    """The task whose metrics these are, where several tasks measure the same; None: those of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = RowScores()
        """Sums of single rows of a test, where they are wanted."""

    def bind(self, spec: DataSpec) -> Task:
        """Learn what the data holds; called once, before anything else. Tasks that need more build it here."""
        self._spec = spec
        return self

    @contextmanager
    def on_rows_of(self, spec: DataSpec) -> Iterator[None]:
        """Inside, read rows as long as those of other data, which are of the same kind as those of training."""
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
        """The batch as this objective shows it: shifted, masked, or as it is. Runs beside the loader, on the CPU."""

    def view_to_learn(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        """The same of rows of the train split, which training reads: what prompts show of that split must not be the
        row itself."""
        return self.view(batch, seed=seed, epoch=epoch)

    def num_scored(self, length: int) -> int | None:
        """Positions of a row of this length whose logits the loss reads; None means all."""
        del length
        return self.spec.num_scored

    def longest_read(self) -> int | None:
        """Tokens of the longest row as a model meets it, where the task writes rows of its own; None where they are the
        data's."""
        return None

    def measured_how(self) -> str:
        """What runs must share for their metrics to be comparable."""
        return self.measured_as or type(self).__name__

    @abstractmethod
    def loss(self, model: Architecture, batch: Batch) -> Loss:
        """What training minimises; label smoothing and the like act in training mode only."""

    @abstractmethod
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        """Add a batch to the metrics of a stage."""

    @abstractmethod
    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """The metrics of a stage over all batches and devices; starts afresh."""

    def chance(self) -> dict[str, float]:
        """What a model gets that knows neither inputs nor how often targets occur, by metric name; called after bind.
        Metrics of which only rows tell it are left out."""
        return {}

    @abstractmethod
    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """What a model that learned nothing would get, by metric name: chance, or ln(V)."""

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """The same, where only the rows behind the stage's last results can tell: the length of their contexts."""
        del stage
        return {}

    def settle(self, selected: Mapping[str, float]) -> None:
        """Take over what the validation of the selected weights chose, by the names of its results, before they are
        tested: a threshold."""
        del selected

    def files(self, stage: Literal["validation", "test"]) -> Mapping[str, Any]:
        """What the stage's last results rest on, sample by sample, by the name of a JSON file: predictions in a
        published form."""
        del stage
        return {}

    def tables(self, stage: Literal["validation", "test"]) -> dict[str, Table]:
        """What the stage's last results say in more than one number, by name."""
        del stage
        return {}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """What the model makes of each row of a batch that `view` has made, as a person would read it. Draws nothing
        from random generators."""
        del model, batch, decode
        return []
