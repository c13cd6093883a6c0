"""Commands drawn from all groups of conf/: a small model, some task on data that it can read, how it is trained."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from headtohead.config.compose.choices import Choice, choice_names, choices
from headtohead.config.compose.composition import compose
from headtohead.config.errors import ConfigurationError
from headtohead.config.schema.source_code import arguments, class_value

MODEL_GROUPS = ("mixer", "position", "norm", "residual", "feedforward", "initialisation")
OTHER_GROUPS = ("optimizer", "schedule", "precision", "checkpointing", "parametrisation", "probe", "evaluation")
SIDE_GROUPS = ("position", "norm", "residual", "feedforward")
"""The groups of which encoder and decoder may have different choices."""
FIXED = (
    "trainer.accelerator=cpu",
    "trainer.max_steps=4",
    "trainer.validate_every=2",
    "trainer.log_every=1",
    "trainer.progress_bar=false",
    "trainer.num_samples=2",
    "tracking=none",
)
"""The overrides of every command."""
SMALL = {
    "num_train": 48, "num_validation": 6, "num_test": 6, "context_length": 12, "batch_size": 4, "vocab_size": 300,
}  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    "num_layers": (1, 2, 2, 3),
    "num_heads": (1, 2, 2, 4, 3),
    "d_model": (24, 24, 36, 32),
    "dropout": (0.0, 0.0, 0.1),
    "drop_path": (0.0, 0.0, 0.2),
    "tie_weights": ("true", "false"),
    "embedding_norm": ("true", "false"),
    "loops": ("1", "1", "2"),
    "embedding_width": ("null", "null", 10),
    "first_norm": ("true", "true", "false"),
    "head_dense_bias": ("true", "false"),
    "scale_embedding": ("true", "false"),
    "pooling": ("mean", "mean", "mean", "cls"),
    "patch_size": (2, 2, 4, 3),
    "pooler": ("none", "none", "tanh"),
    "head_activation": ("gelu", "tanh"),
    "scale_logits": ("false", "false", "true"),
    "max_length": ("null",) * 9 + (64, 2),
    "num_segments": (0, 0, 2),
}
"""Fields of a model, of which those that its family has are drawn."""
MIXER_VALUES = {"num_kv_heads": (1, 1, 2), "qk_norm": ("true", "false"), "bias": ("true", "false")}
TRAINER_VALUES: dict[str, tuple[Any, ...]] = {
    "gradient_clip": (1.0, "null", 0.1),
    "weight_averaging": ("null", "null", 0.9),
    "train_rows": ("null", "null", 20),
    "keep_checkpoints": ("all", "best", "none"),
}
KIND_OF_FORM = {"language": "language", "slots": "language", "pairs": "pairs_of_text", "labelled": "labelled_text"}
_OFTEN = 0.9
"""The probability that all layers have one feed-forward."""
_USUAL = 0.6
"""The probability that a group keeps its default, so that most drawn commands are ones that somebody would type."""


def drawn_command(rng: random.Random) -> tuple[str, ...]:
    """Return overrides of `h2h train`; what they name exists, but need not go together."""
    family = rng.choice([choice for choice in choices("model") if choice.name not in ("external", "bag_of_words")])
    task, data, *form = _task_and_data(rng, family)
    chosen = [f"model={family.name}", f"task={task.name}", f"data={data.name}", *form]
    chosen += _augmentation(rng, data)
    chosen += [f"{group}={rng.choice(choice_names(group))}" for group in OTHER_GROUPS if rng.random() > _USUAL]
    node = composed(tuple(chosen))["model"]
    for name in MODEL_GROUPS:
        if name in node and rng.random() > (_USUAL if name != "mixer" else 0.3):
            chosen.append(f"model/{name}={rng.choice(choice_names(f'model/{name}'))}")
    if "pattern" in node and "feedforward" in node and rng.random() > _OFTEN:
        pair = ",".join(rng.choice(choice_names("model/feedforward")) for _ in range(2))
        chosen = [one for one in chosen if not one.startswith("model/feedforward=")]
        chosen.append(f"model.feedforward_pattern=[{pair}]")
    if family.name == "encoder_decoder" and rng.random() > _USUAL:
        slot, side = rng.choice(SIDE_GROUPS), rng.choice(("encoder", "decoder"))
        chosen.append(f"model/{slot}@model.{side}.{slot}={rng.choice(choice_names(f'model/{slot}'))}")
    return (*chosen, *_fields(rng, composed(tuple(chosen))))


@cache
def composed(overrides: tuple[str, ...]) -> dict[str, Any]:
    return compose("train", overrides)


def _task_and_data(rng: random.Random, family: Choice) -> tuple[Choice, Choice, *tuple[str, ...]]:
    """Return a task that the family can do, on data that the task can read: left to chance, few draws would train."""
    own = class_value(family.target, "family")
    task = rng.choice([task for task in choices("task") if own in class_value(task.target, "families")])
    kinds = class_value(task.target, "data_kinds")
    data = rng.choice([one for one in drawable() if class_value(one.target, "kind") in kinds or _forms(one, kinds)])
    forms = _forms(data, kinds)
    together = class_value(task.target, "keeps_documents_apart") is False and "packing" in fields_of(data)
    chosen = [*([f"data.form={rng.choice(forms)}"] if forms else []), *(["data.packing=stream"] if together else [])]
    return (task, data, *chosen)


def fields_of(data: Choice) -> set[str]:
    return {argument.name for argument in arguments(data.target) or ()}


def _forms(data: Choice, kinds: Sequence[str]) -> list[str]:
    return [form for form in class_value(data.target, "forms") or () if KIND_OF_FORM[form] in kinds]


@cache
def drawable() -> list[Choice]:
    """Return data that need no file of the user's, no hub and no other data."""
    elsewhere = {"path", "folder", "of"}
    return [choice for choice in choices("data") if not elsewhere & fields_of(choice)]


def _augmentation(rng: random.Random, data: Choice) -> list[str]:
    if rng.random() < _USUAL:
        return []
    fitting = []
    for choice in choices("augmentation"):
        try:
            steps = composed((f"augmentation={choice.name}",))["augmentation"]["steps"]
        except ConfigurationError:
            continue
        kinds = [class_value(step["_target_"], "data_kinds") for step in steps.values()]
        if kinds and all(class_value(data.target, "kind") in one for one in kinds):
            fitting.append(choice.name)
    return [f"augmentation={rng.choice(fitting)}"] if fitting else []


def _fields(rng: random.Random, config: dict[str, Any]) -> Iterator[str]:
    model, mixer = config["model"], config["model"].get("mixer") or {}
    for name, values in VALUES.items():
        if name in model:
            yield f"model.{name}={rng.choice(values)}"
    for name, values in MIXER_VALUES.items():
        if name in mixer and rng.random() > _USUAL:
            yield f"model.mixer.{name}={rng.choice(values)}"
    for name, value in SMALL.items():
        if name in config["data"] and (name != "vocab_size" or rng.random() > _USUAL):
            yield f"data.{name}={value}"
    if "max_basis" in config["optimizer"]:  # of a longer dimension than a gradient's rank, rounding decides the basis
        yield f"optimizer.max_basis={min(VALUES['d_model'])}"
    for name, values in TRAINER_VALUES.items():
        if rng.random() > _USUAL:
            yield f"trainer.{name}={rng.choice(values)}"
