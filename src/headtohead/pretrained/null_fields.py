"""Refuse a null in a stranger's config.json by the name of its field, whatever the family would have made of it."""

from __future__ import annotations

import re
from collections.abc import Callable

from headtohead.pretrained.model_family import COUNTS, Hub, InexpressibleError, ModelFamily

Overrides = Callable[[Hub], list[str]]
"""A function from the fields of a config.json to the overrides that compose our model."""
_NULL = re.compile(r"\bNone\b")
_SOME = (2, [2, 4], "relu")
"""Values of which a field of any type can have one."""
FAULTS = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)
"""The errors that reading raises where a field is absent or holds something of another type."""


def overrides_without_nulls(overrides: Overrides, family: ModelFamily, config: Hub) -> list[str]:
    """Return the overrides of a config.json; raise InexpressibleError that names a null with which there are none."""
    try:
        composed = overrides(config)
    except FAULTS as error:
        if isinstance(error, KeyError):  # a field that is not there is named already
            raise
        if not isinstance(error, InexpressibleError) or _speaks_of_nothing(str(error), config):
            _refuse_null(overrides, family, config)
        raise
    if any(map(_NULL.search, composed)):
        _refuse_null(overrides, family, config)
    return composed


def _refuse_null(overrides: Overrides, family: ModelFamily, config: Hub) -> None:
    """Refuse the null that makes no model where a value makes one, or else all counts that are null."""
    usual = {field: family.defaults.get(family.synonyms.get(field, field), _SOME) for field in config}
    empty = [field for field, value in config.items() if value is None and usual[field] is not None]
    for field in empty:
        values = _SOME if usual[field] is _SOME else (usual[field], *_SOME)
        if any(_makes_a_model(overrides, {**config, field: value}) for value in values):
            raise InexpressibleError(f"its config.json has {field}=null, with which it makes no model: give it a value")
    if counts := [f"{field}=null" for field in empty if field in COUNTS]:
        raise InexpressibleError(f"its config.json has {' and '.join(counts)}: give whole numbers above 0")


def _speaks_of_nothing(message: str, config: Hub) -> bool:
    """Return whether a message holds a null and does not name the field it comes from."""
    return bool(_NULL.search(message)) and not any(f"has {field}=None" in message for field in config)


def _makes_a_model(overrides: Overrides, config: Hub) -> bool:
    try:
        return not any(map(_NULL.search, overrides(config)))
    except FAULTS:
        return False
