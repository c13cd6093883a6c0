"""Define the error of an invalid configuration: one sentence with field, value, choices and fix."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import Any

from headtohead.errors import UsageError

_LONGEST = 300
"""Letters of one value."""
_READABLE = 10**30
"""Whole numbers above are shown by their size."""


class ConfigurationError(UsageError):
    """A configuration that is refused; its message is for the user, one sentence."""


def show(value: Any) -> str:
    """A value as one would write it on the command line."""
    if value is None:
        return "null"
    if value == "":
        return "''"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) > _READABLE:
        return f"{'-' if value < 0 else ''}1e{math.floor(math.log10(abs(value)))}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {show(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(item) for item in value) + "]"
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def one_of(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant."""
    known = list(names)
    lowered = {known_name.lower(): known_name for known_name in known}
    matches = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    if matches:
        return lowered[matches[0]]
    starts = [known_name for known_name in known if len(name) > 1 and known_name.startswith(name)]
    return starts[0] if len(starts) == 1 else None


_LETTERS = 480
"""The letters of choices that a sentence may list."""


def unknown(what: str, name: str, names: Sequence[str]) -> str:
    """The sentence for a name that does not exist: the guess where there is one, and the choices, as many as a line or
    a few can hold."""
    near = [known for known in names if difflib.get_close_matches(name.lower(), known.lower().split("_"), cutoff=0.8)]
    guess = nearest(name, near or names)
    hint = f"did you mean {guess}? " if guess else ""
    return f"{what}: {hint}{'(' if hint else ''}choose from {_listed(near, names)}{')' if hint else ''}"


def _listed(near: Sequence[str], names: Sequence[str]) -> str:
    """Return the names, those that are near first, or the beginning of a long list."""
    listed = ", ".join([*sorted(near), *sorted(set(names) - set(near))]) or "none"
    return listed if len(listed) <= _LETTERS else f"{listed[:_LETTERS].rpartition(', ')[0]}, and others"
