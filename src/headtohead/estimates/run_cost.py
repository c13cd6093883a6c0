"""Compute what a whole run costs before it starts: the ledger of its model, times what its batches hold; and its disk
space: checkpoints by their contents, the rest by typical sizes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import median
from typing import Any, Literal, get_args

from headtohead.architectures.architecture import InputSize
from headtohead.architectures.ledger import Lengths, RowFlops, Totals, ledger
from headtohead.config.build import build_task, fitted, make_model
from headtohead.config.instantiate import make
from headtohead.config.origins.from_weights import build_data
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.run_config import RunConfig
from headtohead.data.augmentation.augmentation import NO_AUGMENTATION, Augmentations
from headtohead.data.batches.batch import IGNORED
from headtohead.data.batches.row_order import evaluation_batches, order_of
from headtohead.data.data_source import DataSource, Split
from headtohead.data.splits.sample_splits import train_subset
from headtohead.estimates.step_timing import StepTiming
from headtohead.tasks.task import Task
from headtohead.training.loop.seeds import seeds_of
from headtohead.training.memory import optimizer_state_size

Figure = Literal[
    "parameters", "non_embedding_parameters", "active_parameters", "training_flops", "tokens", "state_elements",
    "seconds", "joules",
]  # fmt: skip
FIGURES: tuple[Figure, ...] = get_args(Figure)
BATCHES_READ = 32
"""The number of batches read from the start of the run; where all rows are of one length, one batch is as good as any
number."""


@dataclass(frozen=True)
class DataVolume:
    """A data volume is what the first steps of a run read."""

    rows: Mapping[Lengths, int]
    """The number of rows of each length."""
    scored: int
    """Targets that count, of all rows together."""
    num_steps: int
    tokens_per_step: float
    """Real ones, both sides together; images have none."""


class CostedModel:
    """A model without memory, and what it is given to read."""

    def __init__(self, config: Mapping[str, object], size: InputSize, reading: DataVolume) -> None:
        self._model, self.size, self.reading = make_model(config, "meta"), size, reading

    @cached_property
    def totals(self) -> Totals:
        return ledger(self._model, self.size).totals

    @cached_property
    def flops_per_step(self) -> float:
        """Return FLOPs per step as training counts them: of each row at its own length, and of the vocabulary only at
        scored targets."""
        reading = self.reading
        return RowFlops(self._model).of(reading.rows, scored=reading.scored)[0] / reading.num_steps


@dataclass(frozen=True)
class CostedRun:
    """A configuration with nothing left to the data, and what it costs."""

    config: Mapping[str, Any]
    model: CostedModel
    timing: StepTiming | None = None

    @property
    def steps(self) -> int:
        """Readings, of which there is one where all rows are learned from at once."""
        return int(RunConfig(self.config).max_steps) if ConfigView(self.config).trained_by_steps else 1

    def changed(self, config: Mapping[str, object]) -> CostedRun:
        """The same data read by another shape, or for longer."""
        same = RunConfig(config).model == RunConfig(self.config).model
        model = self.model if same else CostedModel(config, self.model.size, self.model.reading)
        return CostedRun(config, model, self.timing)

    def figure(self, name: Figure) -> float:
        if name == "training_flops":
            return self.model.flops_per_step * self.steps
        if name == "tokens":
            return self.model.reading.tokens_per_step * self.steps
        if name == "seconds":
            assert self.timing is not None, "a run is timed before it is asked for its time"
            return self.timing.step_seconds * self.steps
        if name == "joules":
            assert self.timing is not None and self.timing.joules, "a run is measured before it is asked for its energy"
            return median(self.timing.joules) * self.steps
        return float(getattr(self.model.totals, name))

    def uncertainty(self, baseline: CostedRun, figure: Figure) -> float:
        """Return the share by which a measured figure may be off against the baseline's; 0 of one that is counted."""
        if self.timing is None or baseline.timing is None:
            return 0.0
        return self.timing.uncertainty(baseline.timing, of_energy=figure == "joules")

    def figures(self) -> dict[str, float]:
        """All that are known: nobody knows beforehand how often what is fitted at once goes over its rows."""
        unknown = {"seconds"} if self.timing is None else set()
        unknown |= set() if self.timing is not None and self.timing.joules else {"joules"}
        unknown |= set() if ConfigView(self.config).trained_by_steps else {"training_flops"}
        return {name: self.figure(name) for name in FIGURES if name not in unknown}


class RunCosts:
    """Cost many runs: those that read the same data share it, and those of one shape share a model."""

    def __init__(self) -> None:
        self._data: dict[str, DataSource] = {}
        self._tasks: dict[str, Task] = {}
        self._volumes: dict[str, DataVolume] = {}
        self._models: dict[tuple[str, str], CostedModel] = {}

    def of(self, config: Mapping[str, Any], timing: StepTiming | None = None) -> CostedRun:
        """Prepare the data where needed, and read the first batches of the run."""
        read = {name: config.get(name) for name in ("data", "init_from", "resume_from")}
        if (data := self._data.get(key := _text(read))) is None:
            data = self._data[key] = build_data(config)
        run, trained_by_steps = RunConfig(config), ConfigView(config).trained_by_steps
        batches = num_batches(config) if trained_by_steps else None
        rows = _text([read, run.task, config["augmentation"], run.seed, run.train_rows, batches])
        if (task := self._tasks.get(rows)) is None:
            task = self._tasks[rows] = build_task(config, data.spec())
        filled, size = fitted(config, data, task)
        if (volume := self._volumes.get(rows)) is None:
            volume = self._volumes[rows] = data_volume_of(config, data)
        shape = _text([asdict(size), *(filled[name] for name in SHAPE)])
        if (model := self._models.get((shape, rows))) is None:
            model = self._models[shape, rows] = CostedModel(filled, size, volume)
        return CostedRun(filled, model, timing)


SHAPE = ("model", "task", "parametrisation", "finetuning")
"""The nodes of a configuration that make its model."""


def _text(content: object) -> str:
    return json.dumps(content, sort_keys=True)


def num_batches(config: Mapping[str, object]) -> int:
    """Return how many of the first batches are read."""
    return max(1, min(BATCHES_READ, RunConfig(config).max_steps))


def data_volume_of(config: Mapping[str, object], data: DataSource) -> DataVolume:
    """Return the first batches, in the order in which training would read them; all rows, where they are learned
    from at once."""
    task = build_task(config, data.spec())
    seed = seeds_of(RunConfig(config).seed).data_order
    split = train_subset(data.split("train"), RunConfig(config).train_rows, seed)
    if not ConfigView(config).trained_by_steps:
        return DataVolume({}, 0, 1, _tokens_of(split, data.batch_size))
    order = order_of(split, batch_size=data.batch_size, seed=seed)
    augmentation = _augmentation_in_plans(config, data)
    num_steps = num_batches(config)
    rows: Counter[Lengths] = Counter()
    scored = 0
    for step in range(num_steps):
        epoch, numbers = order.step(step)
        drawn_in = order.drawn_in(epoch)
        changed = augmentation.in_loader(split.batch(numbers), seed=seed, epoch=drawn_in)
        batch = task.training_view(changed, seed=seed, epoch=drawn_in)
        rows.update(batch.lengths)
        scored += 0 if batch.targets is None else int((batch.targets != IGNORED).sum())
    tokens = sum(sum(lengths) * count for lengths, count in rows.items())
    return DataVolume(rows, scored, num_steps, tokens / num_steps)


def _augmentation_in_plans(config: Mapping[str, Any], data: DataSource) -> Augmentations:
    """Return what changes the rows of training; a plan reads them as they are where that has work to do first, as
    translating them would take longer than planning."""
    made: Augmentations = make(config["augmentation"])
    return NO_AUGMENTATION if made.has_to_prepare else made.bind(data)


def _tokens_of(split: Split, batch_size: int) -> int:
    return sum(split.batch(rows).num_tokens for rows in evaluation_batches(len(split), batch_size=batch_size))


Config = Mapping[str, Any]
_BYTES = {"64-true": 8, "bf16-true": 2, "16-true": 2}
_RECORD_BYTES = 50_000
"""The record, its configuration and the log."""
_ROW_BYTES = 300
"""The bytes of one line of metrics."""
_MAP_BYTES = 280
"""The bytes of each weight of a map: its picture and the number itself."""


def retained_bytes(config: Config, parameters: float) -> float:
    """Return the bytes that a finished run leaves."""
    best, last = _checkpoints(config, parameters)
    checkpoints = {"all": best + last, "best": best, "last": last, "none": 0.0}[RunConfig(config).keep_checkpoints]
    return checkpoints + _RECORD_BYTES + _metrics(config) + _maps(config)


def temporary_bytes(config: Config, parameters: float) -> float:
    """The checkpoints of a run while it trains, whatever is kept of them."""
    return sum(_checkpoints(config, parameters))


def _checkpoints(config: Config, parameters: float) -> tuple[float, float]:
    """The best holds weights; the last what training resumes from: weights, an average of them, and the state."""
    run = RunConfig(config)
    weights = parameters * _BYTES.get(run.precision or "", 4)
    averaged = 1 if run.weight_averaging else 0
    return weights, weights * (1 + averaged + optimizer_state_size(run.optimizer).most)


def _metrics(config: Config) -> float:
    run = RunConfig(config)
    return _ROW_BYTES * run.max_steps * (1 / run.log_every + 1 / run.validate_every)


def _maps(config: Config) -> float:
    """Return the size of the attention maps at the probe's length; twice that if W&B has its own copy."""
    run = RunConfig(config)
    probe = run.probe
    if not (probe.get("at_end") or probe.get("every")):
        return 0.0
    times = bool(probe.get("at_end")) + (run.max_steps // probe["every"] if probe.get("every") else 0)
    depth = (run.num_layers or 1) * (run.model.get("loops") or 1)
    weights = depth * (run.num_heads or 1) * probe["samples"] * probe["max_length"] ** 2
    copies = 1 if run.tracking.get("mode") == "none" else 2
    return float(times * weights * copies * _MAP_BYTES)
