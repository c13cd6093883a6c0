"""How long a training step of each arm takes on this device: all arms in one process, in turn, medians of the turns.

A step is what training does, batch and optimizer included; logging, validation and checkpoints are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from headtohead.building.build import build_parts
from headtohead.building.errors import ConfigurationError
from headtohead.components.auxiliary import parts_with_losses
from headtohead.components.kernels import kernels_in_use
from headtohead.components.stack import Stack
from headtohead.components.stepping import parts_with_steps
from headtohead.data.order import order_of
from headtohead.studying.matching.costing import Timing
from headtohead.training.compiling import compile_features
from headtohead.training.data_module import StepBatch, Steps, rows_to_learn
from headtohead.training.devices import describe, threads
from headtohead.training.seeds import begin_step, seeds_of
from headtohead.training.sharding import clip_gradients
from headtohead.training.trainer import device_of

WARM_UP = 2
"""Steps of every arm that nobody times: caches, allocators and compilers have done their part by then."""
_AUTOCAST = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def calibrate(
    configs: Mapping[str, Mapping[str, Any]],
    *,
    rounds: int,
    turn_steps: int,
    clock: Callable[[], float] = time.perf_counter,
    tell: Callable[[str], None] | None = None,
) -> dict[str, Timing]:
    """A B A B ...: what slows the machine down for a while slows every arm."""
    counts = {config["trainer"].get("threads") for config in configs.values()}
    if len(counts) > 1:
        raise ConfigurationError(
            "the arms set trainer.threads apart, and they are timed in one process: give all the same"
        )
    turns: dict[str, list[float]] = {name: [] for name in configs}
    with threads(counts.pop()), torch.random.fork_rng():
        trainees = {name: Trainee(config) for name, config in configs.items()}
        for trainee in trainees.values():
            trainee.train(WARM_UP)
        for number in range(rounds):
            if tell is not None:
                tell(f"timing {len(trainees)} arms in turn, round {number + 1} of {rounds}")
            for name, trainee in trainees.items():
                before = clock()
                trainee.train(turn_steps)
                turns[name].append((clock() - before) / turn_steps)
        return {name: trainee.timing(turns[name]) for name, trainee in trainees.items()}


class Trainee:
    """A model, its optimizer and its batches, ready to train on."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        parts = build_parts(config)
        if parts.settings.devices * parts.settings.num_nodes > 1:
            raise ConfigurationError(
                f"trainer.devices={parts.settings.devices} cannot be timed in one process: set trainer.devices=1, or "
                "budget=equal_flops"
            )
        self._settings, seeds = parts.settings, seeds_of(parts.identity.seed)
        self.device = device_of(parts.settings)
        self.precision = parts.precision.on(self.device.type)
        torch.manual_seed(seeds.initialisation)
        self.model = parts.make_model().to(self.device, self.precision.of_weights)
        self._prepare(parts.checkpointing)
        self._task = parts.task.to(self.device)
        self._optimizer = parts.optimizer(self.model)
        self._auxiliary = [part for _, part in parts_with_losses(self.model)]
        self._with_steps, self._dropout_seed = list(parts_with_steps(self.model)), seeds.dropout
        split = rows_to_learn(parts.data, parts.settings, seeds.data_order)
        order = order_of(split, batch_size=parts.data.batch_size, seed=seeds.data_order)
        self._batches = Steps(
            split,
            parts.task,
            order,
            augmentation=parts.augmentation,
            seed=seeds.data_order,
            rank=0,
            world_size=1,
            accumulate=parts.settings.accumulate,
        )
        self._step = 0
        self._scaler = torch.amp.GradScaler(self.device.type, enabled=self.precision.name == "16-mixed")

    def train(self, num_steps: int) -> None:
        """So many more steps, waited for."""
        for _ in range(num_steps):
            begin_step(self._with_steps, self._dropout_seed, self._step)
            dtype = next(self.model.parameters()).dtype
            self._learn(self._batches[self._step].to(self.device, dtype))
            self._step += 1
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def timing(self, turns: list[float]) -> Timing:
        kernels = kernels_in_use(self.model, self.device, self.precision.dtype)
        device = str(describe(self.device, count=1)["name"])
        return Timing(tuple(turns), device, kernels, torch.get_num_threads() if self.device.type == "cpu" else None)

    def _learn(self, batch: StepBatch) -> None:
        for part in batch.parts:
            with self._autocast():
                loss = self._task.loss(self.model, part).total / max(1, batch.scored)
                wanted = [own for auxiliary in self._auxiliary if (own := auxiliary.take_loss()) is not None]
            self._scaler.scale(sum(wanted, start=loss)).backward()
        if self._settings.gradient_clip is not None:
            self._scaler.unscale_(self._optimizer)
            clip_gradients(self.model.parameters(), self._settings.gradient_clip)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad()

    def _prepare(self, checkpointing: Any) -> None:
        self.model.train()
        for module in self.model.modules():
            if isinstance(module, Stack):
                module.checkpointing = checkpointing
        if self._settings.compile:
            compile_features(self.model)

    def _autocast(self) -> AbstractContextManager[Any]:
        dtype = _AUTOCAST.get(self.precision.name)
        return nullcontext() if dtype is None else torch.autocast(self.device.type, dtype)
