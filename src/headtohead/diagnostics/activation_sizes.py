"""Sizes of activations while a model of some width takes its first steps (Yang et al. 2022,
https://arxiv.org/abs/2203.03466, appendix D.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from headtohead.components.block import Block
from headtohead.components.embeddings import PatchEmbedding, TokenEmbedding
from headtohead.components.feedforwards import DenseLayer
from headtohead.config.build import build_parts
from headtohead.data.batches.batch import Batch
from headtohead.diagnostics.coordinate_plan import CoordinatePlan
from headtohead.diagnostics.coordinate_results import LOGITS, ActivationSize, CoordinateResults
from headtohead.diagnostics.doctor.patient import Patient
from headtohead.diagnostics.doctor.training_steps import ShortTraining
from headtohead.training.parallel.devices import threads
from headtohead.training.run_components import RunComponents

_LAYERS = (TokenEmbedding, PatchEmbedding, Block, DenseLayer)
"""Modules whose outputs are looked at, besides the logits."""
Report = Callable[[int, int], object]


def _silent(width: int, seed: int) -> None:
    del width, seed


def measure_activations(plan: CoordinatePlan, report: Report = _silent) -> CoordinateResults:
    """Return all that the plan asks for; `report` hears of each width and seed as it begins."""
    sizes: list[ActivationSize] = []
    for width, config in plan.configs.items():
        parts = build_parts(config)
        with threads(parts.settings.threads):
            for seed in range(plan.num_seeds):
                report(width, seed)
                identity = replace(parts.identity, seed=parts.identity.seed + seed)
                sizes += _sizes(replace(parts, identity=identity), width, seed, plan.num_steps)
    return CoordinateResults(tuple(sizes), config=next(iter(plan.configs.values())))


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
