"""Draw who can do what: the table of scores on the page of mixers as a heat map, which the gallery shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

MIXERS = Path(__file__).parents[1] / "mixers.md"
_TITLE = "## Who can do what"
_MEAN = "mean"


def study_of_abilities() -> str:
    """Return the shipped study that the scores come from, as the page's command names it."""
    match = re.search(r"`h2h study (\w+)", _passage())
    assert match is not None, f"{MIXERS.name} names no study below {_TITLE!r}"
    return match[1]


def scores() -> tuple[list[str], list[tuple[str, list[float]]]]:
    """Return the abilities, and each mixer with its scores, from chance (0) to all right (1)."""
    head, _, *rows = ([cell.strip(" `") for cell in line.strip("|").split("|")] for line in _table())
    return head[1:], [(name, [float(value) for value in values]) for name, *values in rows]


def ability_map() -> Iterator[str]:
    """Yield the heat map: a row for each mixer, the best on average first; each cell has its number too."""
    abilities, rows = scores()
    yield "```{raw} html"
    yield '<figure class="abilities"><table>'
    heads = "".join(f'<th scope="col"><span>{escape(one)}</span></th>' for one in ("mixer", *abilities))
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for name, values in rows:
        cells = "".join(map(_cell, abilities, values))
        yield f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    yield "</tbody></table>"
    yield (
        f"<figcaption>Scores of {len(rows)} mixers from chance (0, no colour) to all right (1, full colour), the best "
        "on average first. One run a cell, seed 0: no verdict follows from a difference.</figcaption></figure>"
    )
    yield from ("```", "")
    yield f"[The same numbers as a table, and what to make of them]({MIXERS.name}#who-can-do-what)."


def _cell(ability: str, score: float) -> str:
    shade = "" if ability == _MEAN else f' style="--score: {min(max(score, 0.0), 1.0):g}"'
    return f"<td{shade}>{score:.2f}</td>"


def _passage() -> str:
    return MIXERS.read_text(encoding="utf-8").partition(_TITLE)[2].partition("\n## ")[0]


def _table() -> list[str]:
    return [line for line in _passage().splitlines() if line.startswith("|")]
