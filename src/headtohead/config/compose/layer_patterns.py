"""Patterns of layers: lists that name the mixer, or the feed-forward, of each layer, and where what they name stands in
a configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.config.compose.choices import choice_names, listed_choices
from headtohead.config.errors import ConfigurationError, unknown


@dataclass(frozen=True)
class LayerPattern:
    """The parts of one slot by layer."""

    slot: str
    """The slot that all layers have alike where there is no pattern."""
    field: str
    """The field that lists names, layer by layer."""
    parts: str
    """The field that holds what they name."""
    noun: str

    @property
    def prefix(self) -> str:
        """Return how the group of a named part begins, as one types it."""
        return f"model/{self.slot}@model.{self.parts}."


MIXERS = LayerPattern("mixer", "pattern", "mixers", "mixer")
FEEDFORWARDS = LayerPattern("feedforward", "feedforward_pattern", "feedforwards", "feed-forward")
PATTERNS = (MIXERS, FEEDFORWARDS)

_PATTERN = re.compile(
    rf"\+{{0,2}}(?P<key>model\.(?:encoder\.|decoder\.)?(?P<field>{'|'.join(one.field for one in PATTERNS)}))"
    r"=\[(?P<names>[^\]]*)\]"
)
_MODEL = re.compile(r"model=([\w.-]+)")
_PLACED = re.compile(rf"\+?(?P<group>(?:{'|'.join(re.escape(one.prefix) for one in PATTERNS)})\w+)=.*")
_READY = re.compile("|".join(rf"{one.slot}@{one.parts}\.\w+" for one in PATTERNS))


def named_parts(overrides: Sequence[str], config_dir: str | Path | None = None) -> list[str]:
    """An override for every part that a pattern names and that has no node of its own yet."""
    placed = {match["group"] for override in overrides if (match := _PLACED.fullmatch(override.strip()))}
    model = next((match[1] for override in reversed(overrides) if (match := _MODEL.fullmatch(override.strip()))), None)
    if model is not None and any(_names(overrides)):
        placed |= ready_parts(model, config_dir)
    missing: dict[str, str] = {}
    for pattern, field, name in _names(overrides):
        if (group := f"{pattern.prefix}{name}") in placed or group in missing:
            continue
        if name not in (known := choice_names(f"model/{pattern.slot}", config_dir)):
            raise ConfigurationError(
                unknown(f"{field} names {name}, which is not a {pattern.noun}", name, known)
                + f"; one with options of its own is +{group}=CHOICE"
            )
        missing[group] = name
    return [f"+{group}={name}" for group, name in missing.items()]


def _names(overrides: Sequence[str]) -> Iterator[tuple[LayerPattern, str, str]]:
    """Yield each name of each pattern, with the field that lists it."""
    for override in overrides:
        if match := _PATTERN.fullmatch(override.strip()):
            pattern = next(one for one in PATTERNS if one.field == match["field"])
            for name in match["names"].split(","):
                if name.strip():
                    yield pattern, match["key"], name.strip().strip("'\"")


def ready_parts(model: str, config_dir: str | Path | None = None) -> frozenset[str]:
    """Return the groups of the parts that a choice of the model brings with nodes of their own, as one types them; none
    where there is no such choice."""
    keys = listed_choices("model", model, config_dir)
    return frozenset(f"model/{key.replace('@', '@model.')}" for key in keys if _READY.fullmatch(key))
