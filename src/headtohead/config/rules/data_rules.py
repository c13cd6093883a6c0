"""A model fitted to its data: what the configuration leaves null is taken from the data, what it gives is checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headtohead.config.compose.choices import choices
from headtohead.config.errors import ConfigurationError, show
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.schema.source_code import class_value
from headtohead.data.data_source import DataSource, DataSpec
from headtohead.data.generated.problem_forms import KIND_OF_FORM


def fit(config: Mapping[str, object], spec: DataSpec) -> dict[str, Any]:
    """Return the configuration with the model's nulls filled; raises ConfigurationError where model and data do not
    fit."""
    view = ConfigView(config)
    known = {
        "vocab_size": spec.vocab_size,
        "max_length": spec.max_length,
        "max_target_length": spec.max_target_length,
        "num_classes": spec.num_classes,
        "image_shape": list(spec.image_shape) if spec.image_shape else None,
    }
    filled = {name: value for name, value in known.items() if view.takes(name) and view.model.get(name) is None}
    model = {**view.model, **{name: value or None for name, value in filled.items()}}
    for sentence in _misfits(view, model, spec):
        raise ConfigurationError(sentence)
    return {**config, "model": model}


def check_kind(config: Mapping[str, object], spec: DataSpec) -> None:
    """Check data whose kind only their content tells."""
    view = ConfigView(config)
    kinds = view.data_kinds
    if kinds and spec.kind not in kinds:
        forms = [form for form in class_value(view.data["_target_"], "forms") or () if KIND_OF_FORM[form] in kinds]
        raise ConfigurationError(
            f"{view.chosen('task')} reads data of kind {' or '.join(kinds)}, and {view.chosen('data')} is {spec.kind}: "
            f"choose {''.join(f'data.form={form}, ' for form in forms)}other data (h2h list data) or another task, "
            f"{' or '.join(_tasks_for(spec.kind))} (h2h list task){view.without_labels_for(spec.kind)}"
        )


def check_fields(config: Mapping[str, Any], data: DataSource) -> None:
    """Refuse fields that were given and that the data, whose content tells their kind, do not read; a limit that only
    the weights of `init_from` set is not in the configuration."""
    for field, value in data.ignored_fields().items():
        if field in config["data"] and config["data"][field] is None:
            continue
        raise ConfigurationError(
            f"data.{field}={show(value)} has no effect on {ConfigView(config).chosen('data')}, whose rows are "
            f"{data.spec().kind}: leave it out"
        )


def _tasks_for(kind: str) -> list[str]:
    return [f"task={c.name}" for c in choices("task") if kind in (class_value(c.target, "data_kinds") or ())]


def _misfits(view: ConfigView, model: Mapping[str, Any], spec: DataSpec) -> Iterator[str]:
    data = view.chosen("data")
    vocab_size, num_classes = model.get("vocab_size"), model.get("num_classes")
    if vocab_size and vocab_size < spec.vocab_size:
        yield (
            f"model.vocab_size={vocab_size} is smaller than the vocabulary of {data}, whose token ids go up to "
            f"{spec.vocab_size - 1}: leave it null, or give at least {spec.vocab_size}"
        )
    for field, longest in (("max_length", spec.max_length), ("max_target_length", spec.max_target_length)):
        value = model.get(field)
        if value and value < longest:
            yield (
                f"model.{field}={value} is shorter than the rows of {data}, which have up to {longest} tokens: "
                f"leave it null, or give at least {longest}{_shorter_rows(view, field, value)}"
            )
    if num_classes and num_classes < spec.num_classes:
        yield (
            f"model.num_classes={num_classes} is less than the {spec.num_classes} classes of {data}: "
            f"leave it null, or give at least {spec.num_classes}"
        )
    yield from _image_misfits(model, spec, data)


def _shorter_rows(view: ConfigView, field: str, value: int) -> str:
    """Return the field of the data that cuts rows to so many tokens, as one would type it."""
    cuts = field if field in view.data else "context_length" if "context_length" in view.data else None
    if cuts is None:
        return ", or choose data of shorter rows"
    return f", or cut the rows: data.{cuts}={value - 1 if cuts == 'context_length' else value}"


def _image_misfits(model: Mapping[str, Any], spec: DataSpec, data: str) -> Iterator[str]:
    shape = model.get("image_shape")
    if shape and spec.image_shape and tuple(shape) != spec.image_shape:
        yield (
            f"model.image_shape={list(shape)} differs from {list(spec.image_shape)} of {data}: leave it null "
            f"(channels, height, width)"
        )
    patch = model.get("patch_size")
    if shape and patch and (shape[1] % patch or shape[2] % patch):
        divisors = [number for number in range(1, min(shape[1:]) + 1) if not (shape[1] % number or shape[2] % number)]
        yield (
            f"model.patch_size={patch} does not divide the images of {data}, {shape[1]} x {shape[2]}: "
            f"choose {', '.join(map(str, divisors))}"
        )
