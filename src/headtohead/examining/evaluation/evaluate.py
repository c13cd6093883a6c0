"""A finished run's selected weights, measured on what is asked for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from headtohead.architectures.contracts import Architecture, InputSize
from headtohead.building.build import build_task
from headtohead.building.errors import ConfigurationError
from headtohead.building.revising import revised
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataSource, Split
from headtohead.examining.evaluation.findings import Evaluation, Point
from headtohead.examining.evaluation.of_classes import intervals, per_class
from headtohead.examining.evaluation.places import PlaceSums, places_of, token_losses
from headtohead.examining.evaluation.prompted import prompted, with_shots
from headtohead.examining.evaluation.question import (
    Question,
    at_length,
    check_data,
    check_reach,
    check_stride,
    data_of,
    trained_length,
)
from headtohead.examining.finished import FinishedRun, device_for
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.contracts import Task
from headtohead.tasks.lengths import as_read
from headtohead.training.data_module import EvaluationBatches
from headtohead.training.devices import threads
from headtohead.training.display import Display


def evaluate(run: FinishedRun, question: Question) -> Evaluation:
    """Measured, and written to RUN/evaluations; raises ConfigurationError for what cannot be asked."""
    change = revised if question.shots is None else prompted
    config = change(run.config, question.overrides, question.config_dir)
    trained = trained_length(run)
    lengths: tuple[int | None, ...] = question.lengths or (None,)
    shots: tuple[int | None, ...] = question.shots or (None,)
    device = device_for(config)
    with threads(config["trainer"].get("threads")):
        points = tuple(
            Pass(run, with_shots(config, number), question, length, trained, device).measured()
            for length in lengths
            for number in shots
        )
    found = Evaluation(
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
    return replace(found, path=str(found.write(run.folder)))


class Pass:
    """One pass over a split, at one length."""

    def __init__(
        self,
        run: FinishedRun,
        config: Mapping[str, Any],
        question: Question,
        length: int | None,
        trained: int | None,
        device: torch.device,
    ) -> None:
        self.run, self.question, self.device, self.trained = run, question, device, trained
        self.precision = question.precision(config, device.type)
        self.config = at_length(config, question, length, trained)
        self.data = data_of(run, self.config, question)
        self.spec = self.data.spec()
        check_data(run, self.config, self.spec)
        self.task = build_task(self.config, self.spec)
        self.task.settle(run.record.metrics.get("validation", {}))
        check_stride(self.task, self.config, question.stride)
        self.length = trained if length is None and question.stride is not None else length
        self.split = self._rows()
        self.model = self._model()

    def measured(self) -> Point:
        started = time.perf_counter()
        counts, places = _Counts(), PlaceSums() if self.question.by_place else None
        batches = EvaluationBatches(
            self.split,
            self.task,
            batch_size=self._batch_size(),
            rank=0,
            world_size=1,
            of_train=self.question.split == "train",
        )
        display = Display(self._doing(), start=0, total=len(self.split), wanted=True, unit="rows")
        try:
            for place in range(len(batches)):
                for batch in batches[place].to(self.device, self.precision.of_weights).parts:
                    counts.add(batch)
                    with self.precision.autocast(self.device.type):
                        self.task.measure("test", self.model, batch)
                        if places is not None:
                            places.add(token_losses(self.model, batch), places_of(batch))
                display.step(counts.samples)
        finally:
            display.close(counts.samples)
        metrics = self.task.results("test")
        return Point(
            length=self.length,
            metrics=metrics,
            baseline={**self.task.baseline(self.spec), **self.task.measured_baseline("test")},
            samples=counts.samples,
            scored=counts.scored,
            mean_context=counts.mean_context(self.task),
            data_hash=self.spec.data_hash,
            seconds=time.perf_counter() - started,
            position=dict(self.config["model"].get("position") or {}),
            shots=None if self.question.shots is None else self.config["task"]["shots"],
            intervals=intervals(metrics, counts.samples),
            per_class=per_class(self.task.tables("test")),
            places=None if places is None else places.read(),
            files=self.task.files("test"),
        )

    def _doing(self) -> str:
        """What tells this pass from others comes first: long names are cut."""
        shots = "" if self.question.shots is None else f", {self.config['task']['shots']} shots"
        return f"{self.length or self.question.split}{shots}: {self.run.record.name}"

    def _rows(self) -> Split:
        stride = self.question.stride
        if self.question.by_place and not isinstance(self.task, CausalLanguageModelling):
            raise ConfigurationError("--places tells the loss of next tokens by place, and this run predicts none")
        if stride is None:
            return self.data.split(self.question.split)
        if self.length is None or stride > self.length:
            raise ConfigurationError(f"--stride {stride} needs windows of at least as many tokens: give --length")
        return self.data.windows(self.question.split, length=self.length, stride=stride)

    def _model(self) -> Architecture:
        model = _with_weights(self.run, self.config)
        size = _longest(self.task, self.data, self.length if self.question.stride is not None else None)
        check_reach(model, size, self.trained, self.config, self.spec.kind)
        return model.to(self.device, self.precision.of_weights)

    def _batch_size(self) -> int:
        """As many tokens at once as in training, though rows be longer."""
        size = self.data.batch_size
        if self.length is None or not self.trained or self.length <= self.trained:
            return size
        return max(1, size * self.trained // self.length)


class _Counts:
    """What was scored, and how much was in sight."""

    def __init__(self) -> None:
        self.samples = self.scored = self._seen = 0

    def add(self, batch: Batch) -> None:
        assert batch.targets is not None, "view makes the targets"
        self.samples += batch.num_samples
        self.scored += int((batch.targets != IGNORED).sum())
        if batch.tokens is not None and batch.targets.shape == batch.tokens.shape:
            self._seen += int((places_of(batch) + 1).sum())

    def mean_context(self, task: Task) -> float | None:
        is_causal = isinstance(task, CausalLanguageModelling)
        return self._seen / self.scored if is_causal and self.scored else None


def _with_weights(run: FinishedRun, config: Mapping[str, Any]) -> Architecture:
    try:
        return run.model_with(lambda _: config)
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise ConfigurationError(
            f"the weights of {run.record.id} do not fit the changed model ({first}): change parts without weights of "
            "their own, such as one rotary position for another"
        ) from None


def _longest(task: Task, data: DataSource, window: int | None) -> InputSize:
    """The longest rows that the model meets."""
    longest = as_read(task, data).max_length if window is None else window
    return InputSize(length=longest, decoder_length=data.spec().max_target_length)
