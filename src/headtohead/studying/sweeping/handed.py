"""Overrides from W&B's agent, which writes values as Python does, read as the sweep's file wrote them.

None, True and {'lr': 0.001} are no words of Hydra's: the file that the agent leaves beside them has the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headtohead.building.overrides import key_of
from headtohead.building.trust import check_handed
from headtohead.studying.sweeping.naming import field_of, typed
from headtohead.tracking.wandb_settings import setting

GROUP = "sweep-{}"
"""Where the runs of a sweep go that says nothing else: the folder, and the group on W&B."""


def as_written(overrides: Sequence[str], values: Mapping[str, Any], sweep: str) -> list[str]:
    """`values` by parameter, as the agent had them; raises ConfigurationError where they would name a class."""
    check_handed(values, f"sweep {sweep}")
    by_word = {f"{key}={value}": (key, value) for key, value in values.items()}
    found: list[str] = []
    for override in overrides:
        found += _fields(*by_word[override]) if override in by_word else [override]
    named = any(key_of(override) == "group" for override in found)
    return found if named else [*found, f"group={GROUP.format(sweep)}"]


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
