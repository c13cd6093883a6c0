"""Classes made by fields, as a configuration makes them: those of a field group stand among the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from inspect import Parameter, isclass, signature
from typing import Any, TypeVar, get_type_hints

from headtohead.config.instantiate import make
from headtohead.field_group import FieldGroup

Made = TypeVar("Made")


def from_fields(cls: type[Made], **fields: Any) -> Made:
    made: Made = make({"_target_": f"{cls.__module__}.{cls.__qualname__}", **fields})
    return made


def fields_taken(made: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Return each field that a class takes, with its default or `Parameter.empty`, as the imported class says it."""
    hints = get_type_hints(made.__init__ if isclass(made) else made)
    for name, parameter in signature(made).parameters.items():
        group = hints.get(name)
        if not (isclass(group) and issubclass(group, FieldGroup)):
            yield name, parameter.default
            continue
        for field in fields(group):  # type: ignore[arg-type]
            own = getattr(parameter.default, field.name, field.default)
            yield field.name, Parameter.empty if own is MISSING else own
