"""Overrides from W&B's agent, which writes values as Python does, read as the sweep's file wrote them.

None, True and {'lr': 0.001} are not words of Hydra's: the file that the agent leaves beside them has the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import show
from headtohead.config.trust import check_given_values
from headtohead.wandb_client.connection import setting

GROUP = "sweep-{}"
"""The folder and the group on W&B of the runs of a sweep that names no other."""


def as_written(overrides: Sequence[str], values: Mapping[str, object], sweep: str) -> list[str]:
    """Return `values` by parameter as overrides, as the agent had them; raise ConfigurationError if they would name a
    class."""
    check_given_values(values, f"sweep {sweep}")
    by_word = {f"{key}={value}": (key, value) for key, value in values.items()}
    written: list[str] = []
    for override in overrides:
        written += _fields(*by_word[override]) if override in by_word else [override]
    named = any(key_of(override) == "group" for override in written)
    return written if named else [*written, f"group={GROUP.format(sweep)}"]


def name_by_wandb(overrides: Sequence[str]) -> list[str]:
    """Return the override that names one run as WANDB_NAME does, unless a name was typed."""
    name = setting("run_name")
    return [f"name={typed(name)}"] if name and not any(key_of(override) == "name" for override in overrides) else []


def _fields(key: str, value: Any) -> Iterator[str]:
    """Nested parameters are a mapping: a field each."""
    if isinstance(value, dict) and value:
        for name, nested in value.items():
            yield from _fields(f"{key}.{name}", nested)
    else:
        yield f"{field_of(key)}={typed(value)}"


_CHOICES = "choices."
_PLAIN = re.compile(r"[\w./:+*@%-]+|[\[{].*|\$\{.*", re.DOTALL | re.ASCII)
"""Words, numbers, and what is a list, a mapping or a reference already."""


def field_of(parameter: str) -> str:
    """Return the field or group that an override names."""
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
    escaped = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text)
    return f"'{escaped}'"
