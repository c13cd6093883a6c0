"""How arms look: a colour, a dash and a marker each, the same in every figure, told apart without colours too."""

from __future__ import annotations

from dataclasses import dataclass

from headtohead.comparing.findings import Findings

NUM_COLOURS = 8
"""In theme.css, for light and dark: chosen to differ in lightness too, for eyes that do not tell red from green."""
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "1px,3px")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "pentagon", "star")
INK, MUTED, LINE, BAND = "--ink", "--muted", "--line", "--band"
"""Colours of the theme beside those of arms: text, lesser text, lines, areas."""


@dataclass(frozen=True)
class Style:
    """Of one arm."""

    colour: str
    """A token that the page turns into the colour of its theme."""
    dash: str
    symbol: str


def styles_of(findings: Findings) -> dict[str, Style]:
    """By arm; the baseline has the colour of ink, the others theirs in the order of the study."""
    others = [arm.name for arm in findings.arms if arm.name != findings.baseline]
    return {name: _style(place) for place, name in enumerate([findings.baseline, *others])}


def faint(colour: str, opacity: float) -> str:
    """A colour of the theme that lets others through."""
    return f"{colour}/{opacity:g}"


def _style(place: int) -> Style:
    """After the colours have been used up they come again, with other dashes and markers."""
    shift = place + place // NUM_COLOURS
    return Style(f"--arm-{place % NUM_COLOURS}", _DASHES[shift % len(_DASHES)], _SYMBOLS[shift % len(_SYMBOLS)])
