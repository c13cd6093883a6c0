"""Give each arm a colour, a dash and a marker, the same in every figure and distinguishable without colours."""

from __future__ import annotations

from dataclasses import dataclass

from headtohead.comparison.arm_colours import NUM_COLOURS, colour_slots
from headtohead.comparison.comparison_results import ComparisonResults

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "1px,3px")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "pentagon", "star")
INK, MUTED, LINE, BAND = "--ink", "--muted", "--line", "--band"
"""Colours of the theme beside those of arms: text, lesser text, lines, areas."""


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
    """A colour of the theme that lets others through."""
    return f"{colour}/{opacity:g}"


def _style(slot: int, look: int) -> ArmStyle:
    """Return the style of a slot; after the last colour they repeat with other dashes and markers."""
    shift = look + look // NUM_COLOURS
    return ArmStyle(f"--arm-{slot % NUM_COLOURS}", _DASHES[shift % len(_DASHES)], _SYMBOLS[shift % len(_SYMBOLS)])
