"""These rules say which augmentations go with which data, tasks and models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headtohead.config.rules.config_view import ConfigView
from headtohead.config.schema.source_code import class_value


def rules() -> tuple[Callable[[ConfigView], Iterator[str]], ...]:
    return (_kinds, _classes, _paths)


def _kinds(view: ConfigView) -> Iterator[str]:
    kind = class_value(view.data["_target_"], "kind")
    if view.reads_no_labels and kind in (None, "labelled_text"):
        kind = "language"  # which is what such a task makes of them
    for name, step in _steps(view):
        kinds = class_value(step["_target_"], "data_kinds")
        if kind and kinds and kind not in kinds:
            usual = f"it changes data of kind {' or '.join(kinds)}, and this is {kind}"
            yield f"augmentation={name} cannot be used with {view.chosen('data')}: {_reasons(step).get(kind, usual)}"


def _classes(view: ConfigView) -> Iterator[str]:
    for name, step in _steps(view):
        if view.task_value("head") == "pixel_decoder" and class_value(step["_target_"], "changes_classes"):
            yield (
                f"augmentation={name} changes the classes of images, and {view.chosen('task')} reads none: choose "
                "augmentation=random_crop or resized_crop, or task=image_classification"
            )


def _reasons(step: Mapping[str, Any]) -> Mapping[str, str]:
    """Only those that are written down: what is made when imported is checked once the data is at hand."""
    try:
        return class_value(step["_target_"], "cannot") or {}
    except ValueError:
        return {}


def _paths(view: ConfigView) -> Iterator[str]:
    for name, step in _steps(view):
        for field in ("path", "run"):
            if field in step and step[field] is None:
                yield f"augmentation={name} needs a {field}: give augmentation.steps.{name}.{field}"


def _steps(view: ConfigView) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from view.config["augmentation"]["steps"].items()
