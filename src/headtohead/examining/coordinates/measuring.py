"""Sizes of activations while a model of some width takes its first steps (Yang et al. 2022,
https://arxiv.org/abs/2203.03466, appendix D.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from headtohead.building.build import build_parts
from headtohead.components.block import Block
from headtohead.components.dense import DenseLayer
from headtohead.components.embeddings import PatchEmbedding, TokenEmbedding
from headtohead.data.batch import Batch
from headtohead.examining.coordinates.findings import LOGITS, Findings, Measurement
from headtohead.examining.coordinates.plan import Plan
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.doctor.steps import Course
from headtohead.training.devices import threads
from headtohead.training.parts import Parts

_PLACES = (TokenEmbedding, PatchEmbedding, Block, DenseLayer)
"""Modules whose outputs are looked at, besides the logits."""
Tell = Callable[[int, int], object]


def _silent(width: int, seed: int) -> None:
    del width, seed


def measure(plan: Plan, tell: Tell = _silent) -> Findings:
    """All that the plan asks for; `tell` hears of each width and seed as it begins."""
    found: list[Measurement] = []
    configs = plan.configs()
    for width, config in configs.items():
        parts = build_parts(config)
        with threads(parts.settings.threads):
            for seed in range(plan.num_seeds):
                tell(width, seed)
                identity = replace(parts.identity, seed=parts.identity.seed + seed)
                found += _sizes(replace(parts, identity=identity), width, seed, plan.num_steps)
    return Findings(tuple(found), config=next(iter(configs.values())))


def _sizes(parts: Parts, width: int, seed: int, num_steps: int) -> Iterator[Measurement]:
    """Before the first step and after each, of the batch that is learnt, in evaluation mode and without dropout."""
    with torch.random.fork_rng(devices=[]):
        patient = Patient(parts)
        course = Course(patient, patient.few)
        first = _outputs(course.model, course.batch)
        yield from _compared(first, first, width=width, seed=seed, step=0)
        for step, _ in enumerate(course.losses(num_steps, lambda _: 1.0), start=1):
            # The loss is that before a step, which is taken by the time it is told.
            now = _outputs(course.model, course.batch)
            yield from _compared(now, first, width=width, seed=seed, step=step)


def _compared(
    now: dict[str, Tensor], first: dict[str, Tensor], *, width: int, seed: int, step: int
) -> Iterator[Measurement]:
    for place, x in now.items():
        size, change = (float(y.abs().mean()) for y in (x, x - first[place]))
        yield Measurement(width, seed, step, place, size, change)


@torch.no_grad()
def _outputs(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """By place; where a module is used twice, its last output."""
    found: dict[str, Tensor] = {}
    model.eval()
    with _watched(model, found):
        logits: Tensor = model(**batch.inputs())
    return {**found, LOGITS: logits.detach().double()}


@contextmanager
def _watched(model: nn.Module, found: dict[str, Tensor]) -> Iterator[None]:
    def note(place: str, module: nn.Module, given: object, output: Tensor) -> None:
        del module, given
        found[place] = output.detach().double()

    named = [(name, module) for name, module in model.named_modules() if isinstance(module, _PLACES)]
    hooks = [module.register_forward_hook(partial(note, name)) for name, module in named]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
