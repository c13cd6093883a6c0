"""An arm has the colour of its name, in the dashboard, in reports, in notebooks and on W&B; in figures also a dash and
a marker, so that arms are told apart without colours."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headtohead.comparison.comparison_results import ComparisonResults

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


_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "1px,3px")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "pentagon", "star")
INK, MUTED, LINE, BAND, HEAT = "--ink", "--muted", "--line", "--band", "--heat"
"""Colours of the theme beside those of arms: text, lesser text, lines, areas, the high end of a map under text."""


@dataclass(frozen=True)
class ArmStyle:
    """An arm style is the look of one arm."""

    colour: str
    """A token that the page turns into the colour of its theme."""
    dash: str
    symbol: str


def styles_of(results: ComparisonResults) -> dict[str, ArmStyle]:
    """Return the styles by arm, the baseline's first: each has the colour of its name, and dash and marker by the order
    of names, so that a study and a comparison of its runs look alike."""
    slots = colour_slots(arm.name for arm in results.arms)
    others = sorted(arm.name for arm in results.arms if arm.name != results.baseline)
    ordered = [name for name in (results.baseline, *others) if name in slots]
    many = len(ordered) > NUM_COLOURS  # whose colours repeat: dashes and markers then go by the slot, too
    return {name: _style(slots[name], slots[name] if many else index) for index, name in enumerate(ordered)}


def faint(colour: str, opacity: float) -> str:
    """Return a colour of the theme that lets others through."""
    return f"{colour}/{opacity:g}"


def numbered_style(index: int) -> ArmStyle:
    """Return the style of the n-th of things other than arms: levels of a factor, families of a scaling law."""
    return _style(index, index)


def _style(slot: int, look: int) -> ArmStyle:
    """Return the style of a slot; after the last colour they repeat with other dashes and markers."""
    shift = look + look // NUM_COLOURS
    return ArmStyle(f"--arm-{slot % NUM_COLOURS}", _DASHES[shift % len(_DASHES)], _SYMBOLS[shift % len(_SYMBOLS)])
