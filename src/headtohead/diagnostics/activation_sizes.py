"""Sizes of activations while a model of some width takes its first steps (Yang et al. 2022,
https://arxiv.org/abs/2203.03466, appendix D.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headtohead.components.block import Block
from headtohead.components.embeddings import PatchEmbedding, TokenEmbedding
from headtohead.components.feedforwards import DenseLayer
from headtohead.config.build import build_parts
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.data.batches.batch import Batch
from headtohead.diagnostics.coordinate_results import LOGITS, ActivationSize, CoordinateResults
from headtohead.diagnostics.doctor.patient import Patient
from headtohead.diagnostics.doctor.training_steps import ShortTraining
from headtohead.training.parallel.devices import threads
from headtohead.training.run_components import RunComponents

Heads = Literal["wider", "more"]


@dataclass(frozen=True)
class CoordinatePlan:
    """Overrides of a run, and the widths that it is given instead of its own."""

    overrides: Sequence[str]
    widths: Sequence[int]
    num_steps: int = 5
    num_seeds: int = 3
    heads: Heads = "wider"
    """The rule for attention's heads as the width grows."""
    config_dir: str | Path | None = None

    def __post_init__(self) -> None:
        if len(set(self.widths)) < 2 or min(self.widths) < 1:
            raise ConfigurationError(
                f"--widths {','.join(map(str, self.widths))} cannot show growth: give two or more widths, such as "
                "32,64,128,256"
            )
        if self.num_steps < 1 or self.num_seeds < 1:
            name = "--steps" if self.num_steps < 1 else "--seeds"
            raise ConfigurationError(f"{name} must be at least 1: what a step changes is what is measured")

    def configs(self) -> dict[int, dict[str, Any]]:
        """The run's configuration at each width, checked like any other."""
        own = compose_checked("train", [*self.overrides], self.config_dir)
        return {width: self._at(width, own["model"]) for width in sorted(set(self.widths))}

    def _at(self, width: int, model: dict[str, Any]) -> dict[str, Any]:
        wider = [f"model.d_model={width}"]
        if self.heads == "more" and model.get("num_heads"):
            head = model["d_model"] // model["num_heads"]
            if width % head:
                raise ConfigurationError(
                    f"--heads more has heads of width {head}, which does not divide width {width}: give multiples of "
                    f"{head}"
                )
            wider.append(f"model.num_heads={width // head}")
        return compose_checked("train", [*self.overrides, *wider], self.config_dir)


_LAYERS = (TokenEmbedding, PatchEmbedding, Block, DenseLayer)
"""Modules whose outputs are looked at, besides the logits."""
Report = Callable[[int, int], object]


def _silent(width: int, seed: int) -> None:
    del width, seed


def measure_activations(plan: CoordinatePlan, report: Report = _silent) -> CoordinateResults:
    """Return all that the plan asks for; `report` hears of each width and seed as it begins."""
    sizes: list[ActivationSize] = []
    configs = plan.configs()
    for width, config in configs.items():
        parts = build_parts(config)
        with threads(parts.settings.threads):
            for seed in range(plan.num_seeds):
                report(width, seed)
                identity = replace(parts.identity, seed=parts.identity.seed + seed)
                sizes += _sizes(replace(parts, identity=identity), width, seed, plan.num_steps)
    return CoordinateResults(tuple(sizes), config=next(iter(configs.values())))


def _sizes(parts: RunComponents, width: int, seed: int, num_steps: int) -> Iterator[ActivationSize]:
    """Yield the sizes before the first step and after each, on the training batch, in evaluation mode and without
    dropout."""
    with torch.random.fork_rng(devices=[]):
        patient = Patient(parts)
        course = ShortTraining(patient, patient.few)
        first = _outputs(course.model, course.batch)
        yield from _compared(first, first, width=width, seed=seed, step=0)
        for step, _ in enumerate(course.losses(num_steps, lambda _: 1.0), start=1):
            # The loss is that before a step, which is taken by the time it is reported.
            now = _outputs(course.model, course.batch)
            yield from _compared(now, first, width=width, seed=seed, step=step)


def _compared(
    now: dict[str, Tensor], first: dict[str, Tensor], *, width: int, seed: int, step: int
) -> Iterator[ActivationSize]:
    for index, x in now.items():
        size, change = (float(y.abs().mean()) for y in (x, x - first[index]))
        yield ActivationSize(width, seed, step, index, size, change)


@torch.no_grad()
def _outputs(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Return the outputs by layer; if a module is used twice, its last output."""
    outputs: dict[str, Tensor] = {}
    model.eval()
    with _watched(model, outputs):
        logits: Tensor = model(**batch.inputs())
    return {**outputs, LOGITS: logits.detach().double()}


@contextmanager
def _watched(model: nn.Module, outputs: dict[str, Tensor]) -> Iterator[None]:
    def note(name: str, module: nn.Module, inputs: object, output: Tensor) -> None:
        del module, inputs
        outputs[name] = output.detach().double()

    named = [(name, module) for name, module in model.named_modules() if isinstance(module, _LAYERS)]
    hooks = [module.register_forward_hook(partial(note, name)) for name, module in named]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
