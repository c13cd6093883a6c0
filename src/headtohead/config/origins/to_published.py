"""A model of ours written as a published one: by a family that composes, from its own words, the very same model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.heads import name_of
from headtohead.config.build import make_model
from headtohead.config.compose.composition import compose
from headtohead.data.tokenizers import Tokenizer
from headtohead.errors import UsageError
from headtohead.pretrained.checkpoint_writer import write_checkpoint
from headtohead.pretrained.families import FAMILIES
from headtohead.pretrained.hub_checkpoint import is_published, open_checkpoint
from headtohead.pretrained.model_family import InexpressibleError, ModelFamily, OtherArchitectureError
from headtohead.pretrained.safetensor_files import CheckpointError

_FROM_DATA = ("vocab_size", "max_length", "max_target_length", "num_classes", "image_shape")
_ONLY_IN_TRAINING = {
    "training", "dropout", "drop_path", "p", "balance", "balance_weight", "z_weight", "bias_rate", "capacity",
}  # fmt: skip
_SHOWN = 3
_ROUNDING = 1e-12


def write_hub(
    model: Architecture,
    config: Mapping[str, Any],
    folder: Path,
    *,
    tokenizer: Mapping[str, Any] | None = None,
    class_names: Sequence[str] = (),
) -> str:
    """Writes the folder and gives the model_type it was written in; raises InexpressibleError, with the reasons.

    `config` is a run's own, with nothing left to the data; `tokenizer` are the facts that its data tells of one, and
    `class_names` those of a classifier's labels.
    """
    near: list[str] = []
    far: list[str] = []
    others: list[str] = []
    origin = _origin(config)
    families = [family for family in FAMILIES if family.made_of_mixers == ("mixer" in config["model"])]
    for family in sorted(families, key=lambda family: family.model_type != origin.get("model_type")):
        try:
            hub = family.hub_config(config["model"])
        except InexpressibleError as error:
            is_other = isinstance(error, OtherArchitectureError) and family.model_type != origin.get("model_type")
            (others if is_other else far).append(f"{family.model_type}: {error}")
            continue
        try:
            difference = _difference(model, family, hub, config)
        except UsageError as error:  # what it would write is refused by its own reader
            far.append(f"{family.model_type}: {error}")
            continue
        if difference is not None:
            near.append(f"{family.model_type}: {difference}")
            continue
        hub |= {**_named(model, family, class_names), **_length(family, hub, origin)}
        write_checkpoint(model, family, hub, folder, None if tokenizer is None else Tokenizer.from_dict(tokenizer))
        return family.model_type
    reasons = "; ".join([*near, *far, *others][:_SHOWN])
    raise InexpressibleError(
        f"no form of the hub can represent this model ({reasons}): use our own form, safetensors and config"
    )


def _origin(config: Mapping[str, object]) -> Mapping[str, object]:
    """Return the config.json that a run started from; empty where there is none, or none within reach."""
    origin = str(config.get("init_from") or "")
    if not is_published(origin):
        return {}
    try:
        return open_checkpoint(origin).config
    except CheckpointError:
        return {}


def _length(family: ModelFamily, hub: Mapping[str, Any], origin: Mapping[str, Any]) -> dict[str, int]:
    """Return the longest row of the checkpoint it started from: shorter ones in its training take nothing away."""
    field = family.length_field
    if field is None or origin.get("model_type") != family.model_type or not isinstance(origin.get(field), int):
        return {}
    return {field: max(origin[field], hub.get(field) or 0)}


def _named(model: Architecture, family: ModelFamily, class_names: Sequence[str]) -> dict[str, Any]:
    """Return the hub's class with a head as the model's, and what the labels mean."""
    head = name_of(model.head)
    named: dict[str, Any] = {"architectures": [name for name, of in family.architectures.items() if of == head][:1]}
    if class_names:
        named["id2label"] = {str(number): name for number, name in enumerate(class_names)}
        named["label2id"] = {name: number for number, name in enumerate(class_names)}
    return named


def _difference(
    model: Architecture, family: ModelFamily, hub: Mapping[str, Any], config: Mapping[str, Any]
) -> str | None:
    """Return what distinguishes the model from the one that the family composes from its own fields, or None."""
    overrides = family.overrides(family.written(hub), name_of(model.head))
    composed = compose("train", overrides)
    node = composed["model"]
    filled = {name: config["model"].get(name) for name in _FROM_DATA if node.get(name, 0) is None}
    counterpart = make_model({**composed, "task": config["task"], "model": {**node, **filled}}, "meta")
    ours, theirs = dict(model.named_modules()), dict(counterpart.named_modules())
    for path in ours.keys() | theirs.keys():
        if path not in ours or path not in theirs:
            return f"{path} is in one of the two only"
    shapes, others = ({name: tensor.shape for name, tensor in one.state_dict().items()} for one in (model, counterpart))
    for name in shapes.keys() | others.keys():
        if shapes.get(name) != others.get(name):
            return f"{name} has another shape, or is in one of the two only"
    for path, module in ours.items():
        other = theirs[path]
        if type(module) is not type(other):
            return f"{path} is {type(module).__name__} here and {type(other).__name__} there"
        here, there = _plain(module), _plain(other)
        for name in here.keys() | there.keys():
            if not _alike(here.get(name), there.get(name)):
                return f"{path}.{name} is {here.get(name)} here and {there.get(name)} there"
    return None


def _alike(one: object, other: object) -> bool:
    """Return whether two values are equal, numbers but for the rounding of a formula."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_ROUNDING)
    return one == other


def _plain(module: nn.Module) -> dict[str, object]:
    """Return what a module computes with, besides its weights."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and name not in _ONLY_IN_TRAINING
        and isinstance(value, bool | int | float | str | tuple | None)
    }  # fmt: skip
