"""Write the gallery: every shipped study with its question, its outcome, a figure, its command and its cost.

The files of `conf/study` tell all but the figures, which are drawn from `outcomes/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Any

from ability_map import ability_map, study_of_abilities
from headtohead.config.compose.choices import STUDY, Choice, choices
from headtohead.files.safe_read import read_yaml
from outcomes import outcome_of
from page_parts import FACTS, cell, slug, table
from study_headers import Header, header_of, linked


@dataclass(frozen=True)
class DrawingForm:
    """The form of a drawing, in units of its text."""

    name: str
    width: int
    left: int
    """The room on the left of all values, for names."""
    right: int
    """The room on their right, for means and verdicts."""
    row: int
    line: int
    """The height within a row at which an interval is drawn."""
    text: int
    """The height within a row of its name, mean and verdict."""
    name_at: int
    name_anchor: str


WIDE = DrawingForm("wide", 640, left=190, right=130, row=26, line=18, text=22, name_at=178, name_anchor="end")
NARROW = DrawingForm("narrow", 360, left=8, right=8, row=42, line=34, text=20, name_at=0, name_anchor="start")
"""A phone's drawing has its names, means and verdicts above the intervals."""
_HEAD = 14
"""The room for a word above the values."""
_COLOURS = {"better": "good", "worse": "bad", "equivalent": "same", "undecided": "open"}


def page() -> str:
    """Return the page."""
    shown = choices(STUDY)
    return "\n".join([*_head(len(shown)), *(line for choice in shown for line in _study(choice))])


def _head(number: int) -> Iterator[str]:
    yield "# Gallery of verdicts"
    yield ""
    yield f"The {number} studies that ship, each with its question, its outcome, its command and how long it takes."
    yield "All of it stands in the study's own file, which was written with its expectation before anything ran. A"
    yield "figure shows each arm's mean over the seeds with its 95 % interval, and its verdict against the first, the"
    yield "baseline; a dashed line is chance. Figures are drawn from saved outcomes, and only while a study is the one"
    yield "that they came from. [Repeating the studies](studies.md) says what held on other seeds, [how a verdict is"
    yield "made](verdicts.md) what each word means."
    yield ""
    yield from table(("study", "question", "cost"), map(_line, choices(STUDY)))


def _line(choice: Choice) -> tuple[str, str, str]:
    return (
        f"[`{choice.name}`](#{slug(choice.name)})",
        _question(choice),
        header_of(choice.path).said("Cost").rstrip("."),
    )


def _question(choice: Choice) -> str:
    content = read_yaml(choice.path)
    assert isinstance(content, dict)
    return str(content["question"])


def _study(choice: Choice) -> Iterator[str]:
    header = header_of(choice.path)
    outcome = outcome_of(choice.name)
    yield f"## {choice.name}"
    yield ""
    yield f"**{_question(choice)}**"
    yield ""
    yield linked(header.title)
    yield ""
    if header.about:
        yield linked(header.about)
        yield ""
    if outcome is not None and (drawn := figure(outcome)):
        yield drawn
        yield ""
    if choice.name == study_of_abilities():
        yield from (*ability_map(), "")
    yield from _facts(choice, header, outcome)


def _facts(choice: Choice, header: Header, outcome: dict[str, Any] | None) -> Iterator[str]:
    yield from FACTS
    for label in ("Expected", "Found", "Not as expected", "Again"):
        if text := header.said(label):
            yield f"| {label.lower()} | {cell(linked(_sentence(text)))} |"
    if not any(header.said(label) for label in ("Found", "Not as expected", "Again")) and outcome is None:
        yield "| found | no outcome yet |"
    if outcome is not None:
        verdicts = "<br>".join(f"{verdict['sentence'].rstrip('.')}." for verdict in outcome["verdicts"])
        yield f"| run for this page | {cell(verdicts)} |"
    yield f"| chance | {cell(header.said('Chance').removeprefix('is '))} |"
    yield f"| cost | {cell(header.said('Cost'))} |"
    yield f"| command | `h2h study {choice.name} --workers 2` |"
    yield f"| report | `outputs/studies/{choice.name}/report.html` |"
    yield from (":::", "")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def figure(outcome: dict[str, Any]) -> str:
    """Return drawings of the arms' means and intervals, in the colours of the verdicts: one for a wide page, one for a
    phone, of which a page shows one; nothing without numbers."""
    arms = [arm for arm in outcome["arms"] if arm["mean"] is not None]
    if len(arms) < 2:
        return ""
    return "\n".join(["```{raw} html", *_drawing(outcome, arms, WIDE), *_drawing(outcome, arms, NARROW), "```"])


def _drawing(outcome: dict[str, Any], arms: Sequence[dict[str, Any]], form: DrawingForm) -> Iterator[str]:
    kinds = {verdict["arm"]: verdict["kind"] for verdict in outcome["verdicts"]}
    low, high, chance = _range(outcome, arms)
    pad = (high - low or 1.0) * 0.06

    def x(value: float) -> float:
        return form.left + (value - low + pad) / (high - low + 2 * pad) * (form.width - form.left - form.right)

    top = _HEAD if chance is not None else 0
    foot = top + form.row * len(arms) + 8
    yield (
        f'<svg class="verdicts {form.name}" viewBox="0 0 {form.width} {foot + 40}" role="img" '
        f'aria-label="{_label(outcome)}">'
    )
    for tick in ticks(low - pad, high + pad):
        yield f'<line class="tick" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top + 4}" y2="{foot}"/>'
        yield f'<text class="small" x="{x(tick):.1f}" y="{foot + 15}" text-anchor="middle">{tick:g}</text>'
    if chance is not None:
        yield f'<line class="chance" x1="{x(chance):.1f}" x2="{x(chance):.1f}" y1="{top}" y2="{foot}"/>'
        middle = min(max(x(chance), 22), form.width - 22)
        yield f'<text class="small" x="{middle:.1f}" y="11" text-anchor="middle">chance</text>'
    for row, arm in enumerate(arms):
        said = "baseline" if arm["arm"] == outcome["baseline"] else kinds.get(arm["arm"], "")
        yield from _arm(arm, said, form, x, top + form.row * row)
    better = "lower is better" if outcome["direction"] == "min" else "higher is better"
    caption = f"{outcome['metric']}, {better}, {outcome['seeds']} seeds from {outcome['first_seed']} on"
    yield f'<text class="small" x="{form.width}" y="{foot + 33}" text-anchor="end">{escape(caption)}</text></svg>'


def _range(outcome: dict[str, Any], arms: Sequence[dict[str, Any]]) -> tuple[float, float, float | None]:
    """Return the lowest and the highest number that is drawn, and chance where it is one of these."""
    numbers = [number for arm in arms for number in (arm["mean"], *(arm["interval"] or ()))]
    low, high, chance = float(min(numbers)), float(max(numbers)), outcome["chance"]
    if chance is None or not low - (high - low) <= chance <= high + (high - low):
        return low, high, None
    return min(low, chance), max(high, chance), chance


def _arm(arm: dict[str, Any], said: str, form: DrawingForm, x: Callable[[float], float], above: float) -> Iterator[str]:
    """Yield an arm's name, interval, mean and verdict."""
    y, text = above + form.line, above + form.text
    name = arm["arm"] if len(arm["arm"]) <= 22 else f"{arm['arm'][:11]}…{arm['arm'][-10:]}"
    start, end = arm["interval"] or (arm["mean"], arm["mean"])
    title = f"{arm['arm']}: {arm['mean']:.4g} [{start:.4g}, {end:.4g}], {said}"
    yield f'<g class="{_COLOURS.get(said, "baseline")}"><title>{escape(title)}</title>'
    yield f'<text x="{form.name_at}" y="{text}" text-anchor="{form.name_anchor}">{escape(name)}</text>'
    yield f'<line x1="{x(start):.1f}" x2="{x(end):.1f}" y1="{y}" y2="{y}"/>'
    yield f'<circle cx="{x(arm["mean"]):.1f}" cy="{y}" r="4.5"/>'
    yield f'<text class="small" x="{form.width - 120}" y="{text}">{arm["mean"]:.3g}</text>'
    yield f'<text class="small said" x="{form.width - 76}" y="{text}">{said}</text></g>'


def ticks(low: float, high: float) -> list[float]:
    """Return two to five round numbers between two."""
    power = 10.0 ** floor(log10((high - low) / 4))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= (high - low) / 4)
    return [round(index * step, 12) for index in range(ceil(low / step), floor(high / step) + 1)]


def _label(outcome: dict[str, Any]) -> str:
    return escape(f"means and intervals of {outcome['metric']} for {len(outcome['arms'])} arms")
