"""An arm has the colour of its name, in the dashboard, in reports, in notebooks and on W&B."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

NUM_COLOURS = 8
"""The number of colours in theme.css, for light and dark: chosen to differ in lightness too, for eyes that do not tell
red from green."""
_STRIDES = (1, 3, 5, 7)
"""Steps that come past every colour before they repeat one."""


def colour_slots(names: Iterable[str]) -> dict[str, int]:
    """Return a slot for each name of a set, whatever its order: slot % NUM_COLOURS is the colour, and the slots of the
    same colour differ in dashes.

    A name's checksum says which colours it takes first. Where two names of the set have the same first choice, the one
    that comes later in the alphabet takes its next choice that is free.
    """
    ordered = sorted(set(names))
    slots: dict[str, int] = {}
    for level in range(0, len(ordered), NUM_COLOURS):
        members = ordered[level : level + NUM_COLOURS]
        taken: dict[int, str] = {}
        for name in members:
            taken.setdefault(_preferences(name)[0], name)
        for name in members:
            if name not in taken.values():
                taken[next(colour for colour in _preferences(name) if colour not in taken)] = name
        slots |= {name: level + colour for colour, name in taken.items()}
    return {name: slots[name] for name in ordered}


def light_colours(names: Iterable[str]) -> dict[str, str]:
    """Return the colours of names in the light theme, for pages that are not ours."""
    return {name: theme_colours()[f"--arm-{slot % NUM_COLOURS}"] for name, slot in colour_slots(names).items()}


@cache
def theme_colours() -> dict[str, str]:
    """Return the colours of the style sheet's first block, which is the light theme."""
    sheet = (files("headtohead.comparison") / "theme.css").read_text(encoding="utf-8")
    colours: dict[str, str] = {}
    for name, colour in re.findall(r"(--[\w-]+):\s*(#[0-9a-f]{6})\b", sheet):
        colours.setdefault(name, colour)
    return colours


def _preferences(name: str) -> list[int]:
    checksum = zlib.crc32(name.encode("utf-8", "surrogatepass"))
    first, stride = checksum % NUM_COLOURS, _STRIDES[checksum // NUM_COLOURS % len(_STRIDES)]
    return [(first + step * stride) % NUM_COLOURS for step in range(NUM_COLOURS)]
