"""What the parameters of a sweep are called.

W&B looks for a run's values by the names of the parameters, in the run's configuration: `schedule` is all that the
schedule is there, and the name of the choice stands in `choices`. So a group may be written as choices.schedule.
"""

from __future__ import annotations

import re
from typing import Any

from headtohead.building.errors import show

_CHOICES = "choices."
_PLAIN = re.compile(r"[\w./:+*@%-]+|[\[{].*|\$\{.*", re.DOTALL | re.ASCII)
"""Words, numbers, and what is a list, a mapping or a reference already."""


def field_of(parameter: str) -> str:
    """The field or group that an override names."""
    return parameter.removeprefix(_CHOICES)


def typed(value: Any) -> str:
    """Return a value of a sweep file as an override has it, so that it arrives as the file has it."""
    if isinstance(value, str):
        return _in_quotes(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {typed(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(typed, value)) + "]" if isinstance(value, list) else show(value)


def _in_quotes(text: str) -> str:
    """Text that commas, spaces or signs would split; a backslash counts as one unless quotes follow it."""
    if _PLAIN.fullmatch(text):
        return text
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), text)
    return f"'{escaped}'"
