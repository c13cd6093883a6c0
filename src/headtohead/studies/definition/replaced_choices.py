"""Overrides that a later choice of their group leaves without a field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from headtohead.config.compose.choices import groups
from headtohead.config.compose.composition import compose
from headtohead.config.compose.overrides import key_of
from headtohead.config.schema.key_checks import fields_of

_CHOICE = re.compile(r"(?P<group>\w+)=(?P<name>[\w.-]+)")


def lost_fields(base: Sequence[str], overrides: Sequence[str], config_dir: str | Path | None = None) -> list[str]:
    """Return the overrides of the base whose fields are not those of the choices that come after it: columns of a table
    where data=text is chosen."""
    return [override for override in base if _is_lost(override, overrides, config_dir)]


def _is_lost(override: str, overrides: Sequence[str], config_dir: str | Path | None) -> bool:
    group, dot, field = key_of(override).partition(".")
    names = [match["name"] for one in overrides if (match := _CHOICE.fullmatch(one)) and match["group"] == group]
    if not dot or not names or group not in groups(config_dir):
        return False
    fields = fields_of(group, compose("train", [f"{group}={names[-1]}"], config_dir)[group])
    return fields is not None and field.partition(".")[0] not in fields.kinds
