"""A coordinate check for the terminal: a line for each place, and what it comes to."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.examining.coordinates.findings import TOLERANCE, Exponent, Findings, Verdict

_COLOURS: dict[Verdict, str] = {
    "flat": "green",
    "fading": "yellow",
    "grows": "bold red",
    "shrinks": "bold red",
    "no number": "bold red",
}


def show(findings: Findings) -> RenderableType:
    last = findings.last_step
    steps = f"{last} step{'s' if last > 1 else ''}"
    table = Table(title=f"what {steps} of training change, mean absolute size", title_justify="left")
    table.add_column("after")
    for width in findings.widths:
        table.add_column(f"{width:,}", justify="right")
    table.add_column("grows with width^", justify="right")
    table.add_column("")
    table.add_column("at step 0, width^", justify="right")
    for place in findings.places:
        changes = (f"{findings.mean(place, last, 'change', width):.2g}" for width in findings.widths)
        verdict = findings.verdict(place)
        found, at_start = findings.exponent(place, last, "change"), findings.exponent(place, 0, "size")
        table.add_row(place, *changes, _told(found), Text(verdict, style=_COLOURS[verdict]), _told(at_start))
    return Group(table, Text(_sentence(findings)))


def _told(exponent: Exponent | None) -> str:
    if exponent is None:
        return "-"
    return f"{exponent.value:+.2f}" + ("" if math.isnan(exponent.error) else f" ±{exponent.error:.2f}")


def _sentence(findings: Findings) -> str:
    by_place = {place: findings.verdict(place) for place in findings.places}
    broken = {place: verdict for place, verdict in by_place.items() if verdict not in ("flat", "fading")}
    if not broken:
        fading = " but the logits, which still follow their start" if "fading" in by_place.values() else ""
        return f"Training changes every place{fading} as much at every width (exponents within {TOLERANCE} of 0)."
    told = ", ".join(f"{place}: {verdict}" for place, verdict in broken.items())
    return (
        f"Training does not change every place as much at every width ({told}): the best learning rate of one width "
        "need not be that of another."
    )
