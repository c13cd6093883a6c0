"""A finished run's selected weights, measured on what is requested."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.architectures.vocabulary_heads import VocabularyHead
from headtohead.config.build import build_task
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.revised_run import revised
from headtohead.config.run_config import RunConfig
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSource, Split
from headtohead.data.splits.sample_splits import train_subset
from headtohead.finished_runs.evaluation.evaluation_request import (
    EvaluationRequest,
    at_length,
    check_data,
    check_fields_given,
    check_length,
    check_reach,
    check_stride,
    data_of,
    fields_of_rows,
    prompted,
    trained_length,
    with_shots,
)
from headtohead.finished_runs.evaluation.evaluation_results import Evaluation, EvaluationPoint, LossByPosition
from headtohead.finished_runs.finished_run import FinishedRun, device_for
from headtohead.metrics.labels import ACCURACY
from headtohead.metrics.metric import MetricTable
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.task import Task, spec_as_read
from headtohead.tasks.vocabulary_loss import vocabulary_head
from headtohead.training.callbacks.progress import ProgressLine
from headtohead.training.loop.data_module import EvaluationBatches
from headtohead.training.loop.seeds import seeds_of
from headtohead.training.parallel.devices import threads

_log = logging.getLogger(__name__)


def evaluate(run: FinishedRun, question: EvaluationRequest) -> Evaluation:
    """Measured, and written to RUN/evaluations; raises ConfigurationError for what cannot be asked."""
    change = revised if question.shots is None else prompted
    config = change(run.config, question.overrides, question.config_dir)
    trained = trained_length(run)
    lengths: tuple[int | None, ...] = question.lengths or (None,)
    shots: tuple[int | None, ...] = question.shots or (None,)
    device = device_for(config)
    with threads(RunConfig(config).threads):
        points = tuple(
            EvaluationPass(run, with_shots(config, number), question, length, trained, device).measured()
            for length in lengths
            for number in shots
        )
    evaluation = Evaluation(
        run=run.record.id,
        name=run.record.name,
        split=question.split,
        stride=question.stride,
        trained_length=trained,
        overrides=question.overrides,
        tokenizer=run.record.comparability.tokenizer or "",
        precision=question.precision(config, device.type).name,
        device=device.type,
        monitor=run.record.selection.metric,
        points=points,
    )
    return replace(evaluation, path=str(evaluation.write(run.folder)))


class EvaluationPass:
    """One pass over a split, at one length."""

    def __init__(
        self,
        run: FinishedRun,
        config: Mapping[str, Any],
        question: EvaluationRequest,
        length: int | None,
        trained: int | None,
        device: torch.device,
    ) -> None:
        self.run, self.question, self.device, self.trained = run, question, device, trained
        self.precision = question.precision(config, device.type)
        self.config = at_length(config, question, length, trained)
        self.data = data_of(run, self.config, question)
        self.spec = self.data.spec()
        check_length(self.config, self.spec, length)
        check_fields_given(self.config, self.data, question)
        check_data(run, self.config, self.spec)
        self.task = build_task(self.config, self.spec)
        self.task.use_selected(run.record.metrics.get("validation", {}))
        check_stride(self.task, self.config, question.stride)
        self.length = trained if length is None and question.stride is not None else length
        self.split = self._rows()
        self.model = self._model()

    def measured(self) -> EvaluationPoint:
        started = time.perf_counter()
        counts, by_position = _Counts(), PositionSums() if self.question.by_position else None
        batches = EvaluationBatches(
            self.split,
            self.task,
            batch_size=self._batch_size(),
            rank=0,
            world_size=1,
            of_train=self.question.split == "train",
        )
        display = ProgressLine(self._doing(), start=0, total=len(self.split), enabled=True, unit="rows")
        try:
            for index in range(len(batches)):
                for batch in batches[index].to(self.device, self.precision.of_weights).parts:
                    counts.add(batch)
                    with self.precision.autocast(self.device.type):
                        self.task.measure("test", self.model, batch)
                        if by_position is not None:
                            by_position.add(token_losses(self.model, batch), positions_of(batch))
                display.step(counts.samples)
        finally:
            display.close(counts.samples)
        metrics = self.task.results("test")
        return EvaluationPoint(
            length=self.length,
            metrics=metrics,
            baseline={**self.task.baseline(self.spec), **self.task.measured_baseline("test")},
            samples=counts.samples,
            scored=counts.scored,
            mean_context=counts.mean_context(self.task),
            data_hash=self.spec.data_hash,
            seconds=time.perf_counter() - started,
            position=dict(RunConfig(self.config).model.get("position") or {}),
            shots=None if self.question.shots is None else RunConfig(self.config).task["shots"],
            intervals=intervals(metrics, counts.samples),
            per_class=per_class(self.task.tables("test")),
            places=None if by_position is None else by_position.read(),
            files=self.task.files("test"),
        )

    def _doing(self) -> str:
        """Return the pass's label, which begins with what distinguishes it: long names are cut."""
        shots = "" if self.question.shots is None else f", {RunConfig(self.config).task['shots']} shots"
        return f"{self.length or self.question.split}{shots}: {self.run.record.name}"

    def _rows(self) -> Split:
        stride = self.question.stride
        if self.question.by_position and not isinstance(self.task, CausalLanguageModelling):
            raise ConfigurationError("--places shows the loss of next tokens by position, and this run predicts none")
        if stride is None:
            return self._learned_rows() if self.question.split == "train" else self.data.split(self.question.split)
        if self.length is None or stride > self.length:
            raise ConfigurationError(f"--stride {stride} needs windows of at least as many tokens: give --length")
        return self.data.windows(self.question.split, length=self.length, stride=stride)

    def _learned_rows(self) -> Split:
        """Return the rows of train that the run learned from; of other data, and of rows cut otherwise, all, unless a
        number is given."""
        run, train = RunConfig(self.run.config), self.data.split("train")
        is_same = fields_of_rows(self.config) == fields_of_rows(self.run.config)
        if is_same or self.question.gives("trainer.train_rows"):
            return train_subset(train, RunConfig(self.config).train_rows, seeds_of(run.seed).data_order)
        if run.train_rows is not None:
            _log.warning(
                "--split train reads all %d rows: the %d of trainer.train_rows that the run learned from are rows of "
                "its own data, and these are others; trainer.train_rows=N reads N of them",
                len(train),
                run.train_rows,
            )
        return train

    def _model(self) -> Architecture:
        model = _with_weights(self.run, self.config)
        size = _longest(self.task, self.data, self.length if self.question.stride is not None else None)
        check_reach(model, size, self.trained, self.config, self.spec.kind)
        return model.to(self.device, self.precision.of_weights)

    def _batch_size(self) -> int:
        """Return the batch size with which a batch has as many tokens as in training, though rows may be longer."""
        size = self.data.batch_size
        if self.length is None or not self.trained or self.length <= self.trained:
            return size
        return max(1, size * self.trained // self.length)


class _Counts:
    """Counts say how much was scored, and how much context it had."""

    def __init__(self) -> None:
        self.samples = self.scored = self._seen = 0

    def add(self, batch: Batch) -> None:
        assert batch.targets is not None, "view makes the targets"
        self.samples += batch.num_samples
        self.scored += int((batch.targets != IGNORED).sum())
        if batch.tokens is not None and batch.targets.shape == batch.tokens.shape:
            self._seen += int((positions_of(batch) + 1).sum())

    def mean_context(self, task: Task) -> float | None:
        is_causal = isinstance(task, CausalLanguageModelling)
        return self._seen / self.scored if is_causal and self.scored else None


def _with_weights(run: FinishedRun, config: Mapping[str, object]) -> Architecture:
    try:
        return run.model_with(lambda _: config)
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise ConfigurationError(
            f"the weights of {run.record.id} do not fit the changed model ({first}): change parts without weights of "
            "their own, such as one rotary position for another"
        ) from None


def _longest(task: Task, data: DataSource, window: int | None) -> InputSize:
    """Return the longest rows that the model meets."""
    spec = spec_as_read(task, data)
    return InputSize(length=spec.max_length if window is None else window, decoder_length=spec.max_target_length)


_CERTAINTY = 0.95


def intervals(metrics: Mapping[str, float], samples: int) -> dict[str, list[float]]:
    """Exact, of the share of the rows that are right."""
    from scipy import stats

    by_metric = {}
    if ACCURACY.name in metrics and samples:
        test = stats.binomtest(round(metrics[ACCURACY.name] * samples), samples)
        interval = test.proportion_ci(_CERTAINTY, method="exact")
        by_metric[ACCURACY.name] = [float(interval.low), float(interval.high)]
    return by_metric


def per_class(tables: Mapping[str, MetricTable]) -> list[dict[str, Any]]:
    table = tables.get("per_class")
    return [] if table is None else [dict(zip(table.columns, row, strict=True)) for row in table.rows]


_LOGITS_AT_ONCE = 2**24


class PositionSums:
    """Sums over batches; what stands at place 0 saw one token, the one that it follows."""

    def __init__(self) -> None:
        self._loss = torch.zeros(0, dtype=torch.float64)
        self._tokens = torch.zeros(0, dtype=torch.int64)

    def add(self, losses: Tensor, positions: Tensor) -> None:
        room = max(len(self._loss), int(positions.max()) + 1 if len(positions) else 0)
        grown = room - len(self._loss)
        self._loss = F.pad(self._loss, (0, grown)).index_add(0, positions.cpu(), losses.double().cpu())
        self._tokens = F.pad(self._tokens, (0, grown)) + torch.bincount(positions.cpu(), minlength=room)

    def read(self) -> LossByPosition:
        mean = self._loss / self._tokens
        return LossByPosition(loss=mean.tolist(), tokens=self._tokens.tolist())


@torch.no_grad()
def token_losses(model: Architecture, batch: Batch) -> Tensor:
    """Return the losses in nats, one for each target that counts, row by row."""
    assert batch.targets is not None, "view makes the targets"
    counted = batch.targets != IGNORED
    head = vocabulary_head(model)
    rows, targets = model.features(**batch.inputs())[counted], batch.targets[counted]
    vocab_size = head.weight.shape[0] if isinstance(head, VocabularyHead) else rows.shape[-1]
    size = max(1, _LOGITS_AT_ONCE // vocab_size)
    pieces = zip(rows.split(size), targets.split(size), strict=True)
    return torch.cat([F.cross_entropy(head(some), own, reduction="none") for some, own in pieces])


def positions_of(batch: Batch) -> Tensor:
    """The place of every target that counts in what the model reads of its document."""
    assert batch.targets is not None and batch.tokens is not None, "view makes them"
    positions = batch.positions
    if positions is None:
        positions = torch.arange(batch.tokens.shape[1], device=batch.tokens.device).expand_as(batch.targets)
    return positions[batch.targets != IGNORED]
