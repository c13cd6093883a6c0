"""Randomly drawn combinations: each is refused beforehand, or is built and trains a step."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from headtohead.building import compatibility, schema
from headtohead.building.build import build_parts
from headtohead.building.choices import Choice, choice_names, choices
from headtohead.building.configuration import compose
from headtohead.building.errors import ConfigurationError
from headtohead.building.sources import arguments, class_value
from headtohead.components.stack import Stack
from headtohead.training.parts import Parts

LEGAL_PER_DRAW = 8
MODEL_GROUPS = ("mixer", "position", "norm", "residual", "feedforward", "initialisation")
OTHER_GROUPS = ("task", "data", "optimizer", "schedule", "precision", "checkpointing")
SMALL = {"num_train": 60, "num_validation": 8, "num_test": 8, "context_length": 12, "batch_size": 4}
VALUES: dict[str, tuple[Any, ...]] = {
    "num_layers": (1, 2),
    "num_heads": (1, 2, 2, 4, 3),
    "d_model": (24, 24, 36, 32),
    "dropout": (0.0, 0.1),
    "drop_path": (0.0, 0.2),
    "tie_weights": (True, False),
    "embedding_norm": (True, False),
    "scale_embedding": (True, False),
    "pooling": ("cls", "mean"),
    "pooler": ("none", "tanh"),
    "head_activation": ("gelu", "tanh"),
    "scale_logits": (False, True),
    "max_length": (None,) * 9 + (2, 64),
    "vocab_size": (None,) * 9 + (3, 5000),
    "patch_size": (2, 2, 4, 4, 3),
    "num_segments": (0, 2),
}
DTYPES = {"64-true": torch.float64, "bf16-true": torch.bfloat16}
MIXER_VALUES = {"num_kv_heads": (None, None, 1, 1, 2, 3), "qk_norm": (True, False), "bias": (True, False)}

KIND_OF_FORM = {"language": "language", "slots": "language", "pairs": "pairs_of_text", "labelled": "labelled_text"}


@pytest.fixture(scope="module", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@cache
def composed(*overrides: str) -> dict[str, Any]:
    return schema.check(compose("train", overrides))


def leaf(group: str, choice: str) -> dict[str, Any]:
    """A choice's own node, read from its file: swapping it in is what Hydra does with group=choice."""
    return copy.deepcopy(_leaves(group)[choice])


@cache
def _leaves(group: str) -> dict[str, dict[str, Any]]:
    drawn = drawable() if group == "data" else choices(group)
    nodes = {item.name: yaml.safe_load(item.path.read_text(encoding="utf-8")) for item in drawn}
    assert not any("defaults" in node for node in nodes.values()), f"a choice of {group} builds on others: compose it"
    return nodes


def drawn(rng: random.Random) -> dict[str, Any]:
    """A configuration from all choices; most often with a task that the family can do."""
    family = rng.choice(choice_names("model"))
    config = copy.deepcopy(composed(f"model={family}"))
    for group in (*(f"model/{name}" for name in MODEL_GROUPS), *OTHER_GROUPS):
        names = [choice.name for choice in drawable()] if group == "data" else choice_names(group)
        _choose(config, group, rng.choice(names))
    if rng.random() < 0.95:
        fit_task_and_data(config, rng)
    model = config["model"]
    for name, values in VALUES.items():
        if name in model:
            model[name] = rng.choice(values)
    for node in [model["mixer"], *([model["cross"]] if "cross" in model else [])]:
        node.update({name: rng.choice(values) for name, values in MIXER_VALUES.items() if name in node})
    if "encoder" in model and rng.random() < 0.5:
        slot = rng.choice(("position", "norm", "residual", "feedforward"))
        side = rng.choice(("encoder", "decoder"))
        model[side][slot] = leaf(f"model/{slot}", rng.choice(choice_names(f"model/{slot}")))
    config["trainer"] |= {"accelerator": "cpu", "accumulate": rng.choice((1,) * 9 + (2, 8)), "max_steps": 10}
    config["name"] = "draw"
    return config


def _choose(config: dict[str, Any], group: str, choice: str) -> None:
    node: Any = config
    *path, last = group.split("/")
    for key in path:
        node = node[key]
    node[last] = leaf(group, choice)
    config["choices"][group] = choice
    if group == "data":
        node[last] |= {name: value for name, value in SMALL.items() if name in node[last]}


def fit_task_and_data(config: dict[str, Any], rng: random.Random) -> None:
    """A task that the family can do, on data that the task can read: left to chance, few draws would be."""
    family = class_value(config["model"]["_target_"], "family")
    tasks = [t for t in choices("task") if family in class_value(t.target, "families")]
    task = rng.choice(tasks)
    kinds = class_value(task.target, "data_kinds")
    _choose(config, "task", task.name)
    data = rng.choice([d for d in drawable() if class_value(d.target, "kind") in kinds or forms_for(d, kinds)])
    _choose(config, "data", data.name)
    if "form" in config["data"]:
        config["data"]["form"] = rng.choice(forms_for(data, kinds))


def forms_for(data: Choice, kinds: tuple[str, ...]) -> list[str]:
    """The forms of such data that a task can read, where the data has forms."""
    return [form for form in class_value(data.target, "forms") or () if KIND_OF_FORM[form] in kinds]


@cache
def drawable() -> list[Choice]:
    """Data that needs no file of the user's, no hub and no other data."""
    elsewhere = {"path", "folder", "of"}
    return [choice for choice in choices("data") if not elsewhere & {a.name for a in arguments(choice.target) or ()}]


def train_a_step(parts: Parts) -> None:
    torch.manual_seed(0)
    model = parts.make_model()
    for module in model.modules():
        if isinstance(module, Stack):
            module.checkpointing = parts.checkpointing
    precision = parts.precision.on("cpu").name
    model.to(DTYPES.get(precision, torch.float32))
    batch = parts.task.view(parts.data.split("train").batch(np.arange(4)), seed=0, epoch=0)
    batch = (
        batch if batch.images is None else replace(batch, images=batch.images.to(DTYPES.get(precision, torch.float32)))
    )
    optimizer = parts.optimizer(model)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed"):
        loss = parts.task.loss(model, batch).mean
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss), "a first loss is a number"
    assert parts.schedule(parts.settings.max_steps)(0) >= 0
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())


def test_drawn_combination_is_refused_beforehand_or_trains_a_step(draw_seed: int) -> None:
    rng, legal, refused = random.Random(draw_seed), 0, 0
    while legal < LEGAL_PER_DRAW:
        config = drawn(rng)
        try:
            config = schema.check(config)
            compatibility.check(config)
            parts = build_parts(config)
        except ConfigurationError as refusal:
            refused += 1
            assert "\n" not in str(refusal) and len(str(refusal)) > 30
            continue
        legal += 1
        train_a_step(parts)
    assert refused, "the draw must reach what is to be refused, too"


def test_the_draw_is_the_same_every_time() -> None:
    assert drawn(random.Random(5)) == drawn(random.Random(5))
