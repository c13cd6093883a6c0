"""Effects in plain words, for pages and terminals alike."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from headtohead.comparison.analyses.effects import EffectEstimate, Effects
from headtohead.comparison.contrasts import TOO_FEW_SEEDS

_STYLES = {"better": "green", "worse": "red", "interact": "magenta", "undecided": "yellow", "not estimable": "dim"}


def explained(effects: Effects) -> str:
    """Explain what an effect is in this design, and how many seeds it rests on."""
    base = ", ".join(f"{factor}={level}" for factor, level in effects.base.items())
    design = (
        "An effect is what a level changes against the base's, averaged over the levels of the other factors; an "
        "interaction is how much that change differs at another factor's level"
        if effects.crossed
        else "One factor was moved at a time: an effect is what a level changes at the base, and what factors do "
        "together was not asked"
    )
    return f"The base is {base}. {design}. Each is computed within a seed and tested over {_seeds(effects)}."


def certainty(effect: EffectEstimate) -> str:
    """Return the reading of one effect."""
    text = _reading(effect)
    return f"{text} (exploratory)" if effect.exploratory else text


def _reading(effect: EffectEstimate) -> str:
    if effect.kind == "not estimable":
        if not effect.aliases:
            return "not estimable: too few combinations were run"
        return f"not estimable: aliased with {_listed(effect.aliases)}"
    if effect.withheld:
        return f"undecided: {TOO_FEW_SEEDS} ({effect.withheld})"
    data = {"interact": "the factors interact"}.get(effect.kind, effect.kind)
    return f"{data}, if {_listed(effect.assuming)} {_are(effect.assuming)} zero" if effect.assuming else data


def effects_table(effects: Effects) -> Table:
    """Return the effects as a table for the terminal."""
    table = Table(header_style="bold", title=f"effects on {effects.metric}", title_justify="left")
    table.add_column("effect", overflow="fold")
    for name in ("difference", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reading", overflow="fold")
    for effect in effects.effects:
        difference = "-" if effect.difference is None else f"{effect.difference + 0.0:+.3g}"
        if effect.interval is not None:
            difference += f" [{effect.interval[0] + 0.0:+.3g}, {effect.interval[1] + 0.0:+.3g}]"
        p = "-" if effect.p_adjusted is None else f"{effect.p_adjusted:.2g}"
        table.add_row(Text(effect.name), difference, p, Text(certainty(effect), style=_STYLES[effect.kind]))
    return table


def _seeds(effects: Effects) -> str:
    number = len(effects.seeds)
    return f"{number} seed{'' if number == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
