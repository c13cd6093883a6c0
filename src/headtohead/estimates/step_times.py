"""Measure how long a training step of each arm takes on this device, batch and optimizer included.

Where the ratio of two arms matters, all arms train in one process, in turn; where a plan wants to know its hours, each
distinct shape trains by itself for a moment and is freed. Logging, validation and checkpoints are left out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from statistics import median

import torch

from headtohead.components.fast_kernels import kernels_in_use
from headtohead.config.build import build_parts
from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig
from headtohead.data.batches.row_order import order_of
from headtohead.estimates.device_speed import DeviceSpeed, measure_cpu, speed_of
from headtohead.estimates.layouts import layout_of
from headtohead.estimates.step_timing import StepTiming
from headtohead.training.energy_counters import EnergyCounter, counter_of
from headtohead.training.loop.data_module import TrainingBatches, on_device, training_rows
from headtohead.training.loop.seeds import seeds_of
from headtohead.training.loop.training_module import TrainingModule
from headtohead.training.optim.weight_updates import EvaluatedWeights
from headtohead.training.parallel.device_sheets import sheet_of
from headtohead.training.parallel.devices import describe, device_for, device_name, threads
from headtohead.training.run_components import RunComponents
from headtohead.training.trainer import device_of

WARM_UP = 2
"""Steps of every arm that nobody times: caches, allocators and compilers have done their part by then."""
_NEVER = 2**62
"""A trainer.log_every that no timed step comes to."""
_SECONDS, _MOST_STEPS = 8.0, 9
"""The seconds that timing the shapes of a plan may take together, and the most steps of each."""
_LONG = 4.0
"""A plan times a step that takes so many seconds once; shorter ones are timed after the first steps, which take several
times as long, since they fill caches and import what optimizers need."""
ENERGY_TURN = 1.0
"""The seconds that a turn lasts at least where energy is measured: counters advance up to ten times a second."""
_INSTEAD = "choose budget=equal_time, which needs no counter, or budget=equal_flops"
_OF_A_STEP = (
    "data", "task", "augmentation", "model", "parametrisation", "finetuning", "precision", "checkpointing",
    "init_from", "resume_from",
)  # fmt: skip
_OF_THE_TRAINER = (
    "accelerator", "devices", "num_nodes", "strategy", "tensor_parallel", "shard_among", "reshard", "accumulate",
    "gradient_clip", "weight_averaging", "compile", "threads",
)  # fmt: skip


def measure_step_times(
    configs: Mapping[str, Mapping[str, object]],
    *,
    rounds: int,
    turn_steps: int,
    with_energy: bool = False,
    clock: Callable[[], float] = time.perf_counter,
    report: Callable[[str], None] | None = None,
) -> dict[str, StepTiming]:
    """Time the configurations in turn, A B A B ...: what slows the machine down for a while slows every arm. The energy
    of the turns is measured on request, or refused where there is no counter."""
    turns: dict[str, list[float]] = {name: [] for name in configs}
    joules: dict[str, list[float]] = {name: [] for name in configs}
    counter = _counter_for(configs) if with_energy else None
    with threads(_threads_of_all(configs)), torch.random.fork_rng():
        trainees = {name: TimedModel(config) for name, config in configs.items()}
        for trainee in trainees.values():
            trainee.train(WARM_UP)
        for number in range(rounds):
            if report is not None:
                report(f"timing {len(trainees)} arms in turn, round {number + 1} of {rounds}")
            for name, trainee in trainees.items():
                if counter is not None:
                    counter.read()
                seconds, steps = _turn(trainee, turn_steps, 0.0 if counter is None else ENERGY_TURN, clock)
                turns[name].append(seconds / steps + trainee.messages)
                if counter is not None:
                    joules[name].append(_joules(counter) / steps)
        return {name: trainee.timing(turns[name], joules[name]) for name, trainee in trainees.items()}


def _turn(trainee: TimedModel, num_steps: int, least: float, clock: Callable[[], float]) -> tuple[float, int]:
    """Train for so many steps, and on until so many seconds have passed; return the seconds and the steps."""
    started, steps = clock(), 0
    while True:
        trainee.train(num_steps)
        steps += num_steps
        if (seconds := clock() - started) >= least:
            return seconds, steps


def _counter_for(configs: Mapping[str, Mapping[str, object]]) -> EnergyCounter:
    """Return the counter of the device on which all arms train."""
    for name, config in configs.items():
        if (devices := RunConfig(config).devices * int(RunConfig(config).trainer.get("num_nodes") or 1)) > 1:
            raise ConfigurationError(
                f"budget=equal_energy: arm {name} trains on {devices} devices, and a step of one alone is measured: "
                "choose trainer.devices=1, or budget=equal_time"
            )
    counter = counter_of(device_for(RunConfig(next(iter(configs.values()))).accelerator or "auto"))
    if counter.drawn().joules is None:
        raise ConfigurationError(f"budget=equal_energy: the energy of this machine is {counter.source}: {_INSTEAD}")
    return counter


def _joules(counter: EnergyCounter) -> float:
    """Return what a turn drew."""
    drawn = counter.drawn()
    if not drawn.joules:
        why = f"{counter.source} stood still" if drawn.joules == 0 else drawn.source
        raise ConfigurationError(f"budget=equal_energy: the energy of a turn could not be measured ({why}): {_INSTEAD}")
    return drawn.joules


def step_seconds_by_shape(
    configs: Mapping[str, Mapping[str, object]], clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the seconds of a step of the arms, in their order, until the time for all of them is spent.

    Arms that differ in rate or seed share the figure, and at no time is there more than one model. Arms that cannot be
    run, and those that the time did not reach, are not in the result.
    """
    shapes: dict[str, Mapping[str, object]] = {}
    for config in configs.values():
        shapes.setdefault(_shape_of(config), config)
    share = _SECONDS / max(1, len(shapes))
    timed: dict[str, float] = {}
    started = clock()
    with threads(_threads_of_all(configs)), torch.random.fork_rng():
        for shape, config in shapes.items():
            if timed and clock() - started > _SECONDS:
                break
            try:
                timed[shape] = _step_seconds(TimedModel(config), share, clock)
            except (RuntimeError, ValueError, MemoryError):
                continue  # what cannot be run is reported when it runs; the plan goes without its time
    return {name: timed[shape] for name, config in configs.items() if (shape := _shape_of(config)) in timed}


def _step_seconds(trainee: TimedModel, share: float, clock: Callable[[], float]) -> float:
    started = clock()
    trainee.train(1)
    if (first := clock() - started) >= _LONG:
        return first + trainee.messages
    trainee.train(WARM_UP - 1)
    turns: list[float] = []
    while not turns or (len(turns) < _MOST_STEPS and clock() - started < share):
        before = clock()
        trainee.train(1)
        turns.append(clock() - before)
    return median(turns) + trainee.messages


def _shape_of(config: Mapping[str, object]) -> str:
    """Return all of a configuration that bears on the time of a step."""
    optimizer = {name: value for name, value in RunConfig(config).optimizer.items() if name != "lr"}
    trainer = {name: RunConfig(config).trainer.get(name) for name in _OF_THE_TRAINER}
    return json.dumps([optimizer, trainer, *(config.get(name) for name in _OF_A_STEP)], sort_keys=True)


def _threads_of_all(configs: Mapping[str, Mapping[str, object]]) -> int | None:
    counts = {RunConfig(config).threads for config in configs.values()}
    if len(counts) > 1:
        raise ConfigurationError(
            "the arms have different trainer.threads, and they are timed in one process: give all the same"
        )
    return counts.pop()


class TimedModel:
    """A model, its optimizer and its batches, ready to take the steps of training.

    Of a run over several devices this is what the first one reads and computes, with the whole optimizer; `messages`
    are planned.
    """

    def __init__(self, config: Mapping[str, object]) -> None:
        parts = build_parts(config)
        if parts.settings.tensor_parallel > 1:
            raise ConfigurationError(
                f"trainer.tensor_parallel={parts.settings.tensor_parallel} divides layers, which cannot be timed in "
                "one process: choose trainer=ddp or trainer=fsdp, or budget=equal_flops"
            )
        seeds, self.device = seeds_of(parts.identity.seed), device_of(parts.settings)
        self.precision = parts.precision.on(self.device.type)
        self._augmentation, self._seed = parts.augmentation, seeds.data_order
        self._batches = _batches_of_first_device(parts, seeds.data_order)
        self.messages = message_seconds(config, self.device) if parts.settings.num_replicas > 1 else 0.0
        """The seconds of a step in which devices wait for each other."""
        torch.manual_seed(seeds.initialisation)
        self.model = parts.make_model().to(dtype=self.precision.of_weights)
        alone = replace(parts.settings, strategy="single", log_every=_NEVER)
        self._module = TrainingModule(replace(parts, settings=alone), self.model, dropout_seed=seeds.dropout)
        self._module.to(self.device).train()
        is_scaled = self.precision.name == "16-mixed"
        self._module.begin_alone(torch.amp.GradScaler(self.device.type) if is_scaled else None)

    @property
    def average(self) -> EvaluatedWeights | None:
        """The average of the weights, where the run keeps one."""
        return self._module.average

    def train(self, num_steps: int) -> None:
        """So many more steps, waited for."""
        module = self._module
        dtype = next(self.model.parameters()).dtype
        for _ in range(num_steps):
            batch = on_device(self._batches[module.state.step], self.device, dtype, self._augmentation, self._seed)
            with self.precision.autocast(self.device.type):
                module.training_step(batch, module.state.step)
        module.window.read(lambda losses: losses)  # which waits for the device
        module.window.clear()

    def timing(self, turns: list[float], joules: list[float]) -> StepTiming:
        kernels = kernels_in_use(self.model, self.device, self.precision.dtype)
        device = str(describe(self.device, count=1)["name"])
        num_threads = torch.get_num_threads() if self.device.type == "cpu" else None
        return StepTiming(tuple(turns), device, kernels, num_threads, tuple(joules))


def _batches_of_first_device(parts: RunComponents, seed: int) -> TrainingBatches:
    split = training_rows(parts.data, parts.settings, seed)
    return TrainingBatches(
        split,
        parts.task,
        order_of(split, batch_size=parts.data.batch_size, seed=seed),
        augmentation=parts.augmentation,
        seed=seed,
        rank=0,
        world_size=parts.settings.num_replicas,
        accumulate=parts.settings.accumulate,
    )


def message_seconds(config: Mapping[str, object], device: torch.device) -> float:
    """Return the seconds of messages that no arithmetic hides, in a step of a run over several devices like this."""
    from headtohead.estimates.run_planner import RunPlanner  # it replays steps, and imports torch's compiler for it

    runs, layout = RunPlanner(config, device.type), layout_of(config)
    speed = _cpu_speed(runs.settings.threads) if device.type == "cpu" else _gpu_speed(device)
    rows = -(-runs.batch.num_samples // layout.replicas // layout.accumulate)
    return runs.layout_costs.seconds(layout, rows, speed).exchanging


@cache
def _cpu_speed(count: int | None) -> DeviceSpeed:
    with threads(count):
        return measure_cpu()


def _gpu_speed(device: torch.device) -> DeviceSpeed:
    sheet = sheet_of(device_name(device))
    if sheet is None:
        raise ConfigurationError(
            f"no data sheet tells how fast several {device_name(device)} exchange numbers, so their steps cannot be "
            "timed: choose budget=equal_flops, or trainer.devices=1"
        )
    return speed_of(sheet)
