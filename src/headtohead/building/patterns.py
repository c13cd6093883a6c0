"""Layer patterns: `model.pattern=[mamba,mamba,softmax_attention]` brings the choices that it names along."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from headtohead.building.choices import choice_names
from headtohead.building.errors import ConfigurationError, unknown

_PATTERN = re.compile(r"\+{0,2}(?P<key>model\.(?:encoder\.|decoder\.)?pattern)=\[(?P<names>[^\]]*)\]")
_PLACED = re.compile(r"\+?model/mixer@model\.mixers\.(?P<name>\w+)=.*")


def named_mixers(overrides: Sequence[str], config_dir: str | Path | None = None) -> list[str]:
    """An override for every mixer that a pattern names and that has no place of its own yet."""
    placed = {match["name"] for override in overrides if (match := _PLACED.fullmatch(override.strip()))}
    known = choice_names("model/mixer", config_dir)
    missing = []
    for field, name in dict.fromkeys(_names(overrides)):
        if name in placed or name in missing:
            continue
        if name not in known:
            raise ConfigurationError(
                unknown(f"{field} names {name}, which is no mixer", name, known)
                + f"; one with options of its own is +model/mixer@model.mixers.{name}=CHOICE"
            )
        missing.append(name)
    return [f"+model/mixer@model.mixers.{name}={name}" for name in missing]


def _names(overrides: Sequence[str]) -> Iterator[tuple[str, str]]:
    for override in overrides:
        if match := _PATTERN.fullmatch(override.strip()):
            for name in match["names"].split(","):
                if name.strip():
                    yield match["key"], name.strip().strip("'\"")
