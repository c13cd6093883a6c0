"""Runs with drawn sizes and choices, and the bytes of their step: as planned, and as a meter sees them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from headtohead.config.compose.choices import choices
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.estimates import step_times
from headtohead.estimates.layouts import layout_of
from headtohead.estimates.run_planner import RunPlanner
from headtohead.estimates.step_times import TimedModel
from headtohead.estimates.work_meter import TensorMeter, living_tensors
from training.compiled_runs import FAMILIES

Overrides = list[str]

QUIET = ["trainer.threads=1", "trainer.accelerator=cpu", "tracking=none"]
TEXT = ["data.num_train=64", "data.num_validation=8", "data.num_test=8", "data.tokenizer=char"]
LINES = [*TEXT, "data.packing=stream"]
MASKED = ["model=encoder_only", "task=masked_lm"]
NO_POSITION = ["model/position=none"]
TWO_LAYERS = ["model.num_layers=2"]
FORMS: Sequence[Overrides] = ([], NO_POSITION, MASKED, [*MASKED, *NO_POSITION], TWO_LAYERS)
"""The models of a mixer, of which the first that it fits is taken."""
_WIDTHS = (8, 16, 32)
_STEPS = 3
"""Logged steps that are metered, after the first: the optimizer has its state by then."""


def drawn_sizes(draw: random.Random) -> dict[str, int]:
    heads = draw.choice((2, 4))
    return {
        "model.d_model": heads * draw.choice(_WIDTHS),
        "model.num_heads": heads,
        "model.num_layers": draw.choice((1, 2, 3)),
        "data.context_length": draw.choice((8, 24, 40, 64, 100, 160)),
        "data.batch_size": draw.choice((2, 4, 8, 16)),
    }


EXTRAS: Sequence[Sequence[str]] = (
    ("precision=bf16-mixed", "precision=bf16-true", "precision=64-true"),
    ("checkpointing=full", "checkpointing=every_k", "checkpointing=attention"),
    tuple(f"optimizer={choice.name}" for choice in choices("optimizer")),
    ("model/feedforward=swiglu", "model/feedforward=moe", "model/feedforward=moe_shared", "model/feedforward=rwkv"),
    ("model.feedforward.capacity=1.25", "model.feedforward.num_experts=4"),
    ("model/norm=rms_norm",),
    ("model/residual=post", "model/residual=parallel", "model/residual=sandwich", "model/residual=rezero"),
    ("model/position=rotary", "model/position=alibi", "model/position=t5_bias", "model/position=learned"),
    ("model.dropout=0.1",),
    ("model.drop_path=0.2",),
    ("model.tie_weights=false", "model.loops=2"),
    ("finetuning=head_only", "finetuning.freeze=1", "model/norm=batch_norm"),  # which may not be frozen
    ("trainer.accumulate=2",),
    ("trainer.weight_averaging=0.9",),
    ("trainer.gradient_clip=null",),
)
"""Further choices, of which a run has a few."""


def composed(overrides: Iterable[str]) -> dict[str, Any] | None:
    """Return the configuration; None where it is refused."""
    try:
        return compose_checked("train", list(overrides))
    except ConfigurationError:
        return None


def with_extras(overrides: Overrides, draw: random.Random, most: int = 4) -> Overrides:
    """Return the overrides with some of the further choices that can be combined with them."""
    for kind in draw.sample(EXTRAS, k=draw.randint(0, most)):
        extra = draw.choice(kind)
        if not any(extra.split("=")[0] == one.split("=")[0] for one in overrides):
            more = [*overrides, extra]
            overrides = more if composed(more) is not None else overrides
    return overrides


def drawn_mixer(mixer: str, draw: random.Random) -> Overrides:
    """Return a run of a mixer in the first model that it fits."""
    sizes = [f"{name}={value}" for name, value in drawn_sizes(draw).items()]
    for form in FORMS:
        overrides = [*QUIET, *LINES, f"model/mixer={mixer}", *sizes, *form]
        if composed(overrides) is not None:
            return with_extras(overrides, draw)
    raise AssertionError(f"model/mixer={mixer} fits none of these models: name one in FORMS")


def drawn_family(family: str, draw: random.Random) -> Overrides:
    """Return a run of a family, as the compiled runs have it, with other sizes where it has such fields."""
    usual = FAMILIES[family]
    sizes = {name: value for name, value in drawn_sizes(draw).items() if any(f"{name}=" in one for one in usual)}
    own = [one for one in usual if one.split("=")[0] not in sizes]
    overrides = [*QUIET, *own, *(f"{name}={value}" for name, value in sizes.items())]
    return with_extras([*overrides, *(["finetuning=everything"] if family == "resnet" else [])], draw)


def metered(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the most bytes of tensors that a logged step has at a time."""
    monkeypatch.setattr(step_times, "_NEVER", 1)
    before = living_tensors()
    trained = TimedModel(config)
    trained.train(1)
    peaks = []
    for _ in range(_STEPS):
        with TensorMeter(living_tensors(), ignored=before) as meter:
            trained.train(1)
        peaks.append(meter.peak)
    return max(peaks)


def planned(config: dict[str, Any]) -> float:
    runs, layout = RunPlanner(config, "cpu"), layout_of(config)
    rows = -(-runs.batch.num_samples // layout.replicas // layout.accumulate)
    return runs.layout_costs.memory(layout, rows).total
