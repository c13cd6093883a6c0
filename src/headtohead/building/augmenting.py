"""What of training data can be augmented, and how: refused before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headtohead.building.sources import class_value
from headtohead.building.view import View


def rules() -> tuple[Callable[[View], Iterator[str]], ...]:
    return (_kinds, _paths)


def _kinds(view: View) -> Iterator[str]:
    kind = class_value(view.data["_target_"], "kind")
    for name, step in _steps(view):
        kinds = class_value(step["_target_"], "data_kinds")
        if kind and kinds and kind not in kinds:
            usual = f"it changes data of kind {' or '.join(kinds)}, and this is {kind}"
            yield f"augmentation={name} cannot be used with {view.chosen('data')}: {_reasons(step).get(kind, usual)}"


def _reasons(step: Mapping[str, Any]) -> Mapping[str, str]:
    """Only those that are written down: what is made when imported is told once the data is at hand."""
    try:
        return class_value(step["_target_"], "cannot") or {}
    except ValueError:
        return {}


def _paths(view: View) -> Iterator[str]:
    for name, step in _steps(view):
        for field in ("path", "run"):
            if field in step and step[field] is None:
                yield f"augmentation={name} needs a {field} of yours: give augmentation.steps.{name}.{field}"


def _steps(view: View) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Configurations written before there were any have none."""
    yield from (view.config.get("augmentation") or {}).get("steps", {}).items()
