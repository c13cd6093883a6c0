"""Give each arm a colour, a dash and a marker, the same in every figure and distinguishable without colours."""

from __future__ import annotations

from dataclasses import dataclass

from headtohead.comparison.comparison_results import ComparisonResults

NUM_COLOURS = 8
"""The number of colours in theme.css, for light and dark: chosen to differ in lightness too, for eyes that do not tell
red from green."""
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
    """Return the styles by arm; the baseline has the colour of ink, the others theirs in the order of the study."""
    others = [arm.name for arm in results.arms if arm.name != results.baseline]
    return {name: _style(index) for index, name in enumerate([results.baseline, *others])}


def faint(colour: str, opacity: float) -> str:
    """A colour of the theme that lets others through."""
    return f"{colour}/{opacity:g}"


def _style(position: int) -> ArmStyle:
    """Return the style at this position; after the last colour they repeat with other dashes and markers."""
    shift = position + position // NUM_COLOURS
    return ArmStyle(f"--arm-{position % NUM_COLOURS}", _DASHES[shift % len(_DASHES)], _SYMBOLS[shift % len(_SYMBOLS)])
