"""Write the gallery: every shipped study with its question, its outcome, a figure, its command and its cost.

The files of `conf/study` tell all but the figures, which are drawn from `outcomes/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import ceil, floor, log10
from typing import Any

from ability_map import ability_map, study_of_abilities
from headtohead.config.compose.choices import STUDY, Choice, choices
from headtohead.files.safe_read import read_yaml
from outcomes import outcome_of
from page_parts import FACTS, cell, slug, table
from study_headers import Header, header_of, linked

_WIDTH, _NAMES, _SAID, _ROW = 640, 190, 130, 26
"""Of a figure, in units of its text: all of it, the names on its left, means and verdicts on its right, a row."""
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
    """Return a drawing of the arms' means and intervals, in the colours of the verdicts; nothing without numbers."""
    arms = [arm for arm in outcome["arms"] if arm["mean"] is not None]
    if len(arms) < 2:
        return ""
    kinds = {verdict["arm"]: verdict["kind"] for verdict in outcome["verdicts"]}
    numbers = [number for arm in arms for number in (arm["mean"], *(arm["interval"] or ()))]
    low, high = float(min(numbers)), float(max(numbers))
    chance = outcome["chance"]
    near = chance is not None and low - (high - low) <= chance <= high + (high - low)
    if near:
        low, high = min(low, chance), max(high, chance)
    pad = (high - low or 1.0) * 0.06

    def x(value: float) -> float:
        return _NAMES + (value - low + pad) / (high - low + 2 * pad) * (_WIDTH - _NAMES - _SAID)

    foot = _ROW * len(arms) + 8
    lines = [f'<svg class="verdicts" viewBox="0 0 {_WIDTH} {foot + 40}" role="img" aria-label="{_label(outcome)}">']
    for tick in ticks(low - pad, high + pad):
        lines.append(f'<line class="tick" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="4" y2="{foot}"/>')
        lines.append(f'<text class="small" x="{x(tick):.1f}" y="{foot + 15}" text-anchor="middle">{tick:g}</text>')
    if near:
        lines.append(f'<line class="chance" x1="{x(chance):.1f}" x2="{x(chance):.1f}" y1="4" y2="{foot}"/>')
        lines.append(f'<text class="small" x="{x(chance):.1f}" y="{foot + 33}" text-anchor="middle">chance</text>')
    for row, arm in enumerate(arms):
        y = _ROW * row + 18
        said = "baseline" if arm["arm"] == outcome["baseline"] else kinds.get(arm["arm"], "")
        name = arm["arm"] if len(arm["arm"]) <= 22 else f"{arm['arm'][:11]}…{arm['arm'][-10:]}"
        start, end = arm["interval"] or (arm["mean"], arm["mean"])
        title = f"{arm['arm']}: {arm['mean']:.4g} [{start:.4g}, {end:.4g}], {said}"
        lines.append(f'<g class="{_COLOURS.get(said, "baseline")}"><title>{escape(title)}</title>')
        lines.append(f'<text x="{_NAMES - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        lines.append(f'<line x1="{x(start):.1f}" x2="{x(end):.1f}" y1="{y}" y2="{y}"/>')
        lines.append(f'<circle cx="{x(arm["mean"]):.1f}" cy="{y}" r="4.5"/>')
        lines.append(f'<text class="small" x="{_WIDTH - _SAID + 10}" y="{y + 4}">{arm["mean"]:.3g}</text>')
        lines.append(f'<text class="small said" x="{_WIDTH - _SAID + 54}" y="{y + 4}">{said}</text></g>')
    better = "lower is better" if outcome["direction"] == "min" else "higher is better"
    caption = f"{outcome['metric']}, {better}, {outcome['seeds']} seeds from {outcome['first_seed']} on"
    lines.append(f'<text class="small" x="{_WIDTH}" y="{foot + 33}" text-anchor="end">{escape(caption)}</text></svg>')
    return "\n".join(["```{raw} html", *lines, "```"])


def ticks(low: float, high: float) -> list[float]:
    """Return two to five round numbers between two."""
    power = 10.0 ** floor(log10((high - low) / 4))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= (high - low) / 4)
    return [round(index * step, 12) for index in range(ceil(low / step), floor(high / step) + 1)]


def _label(outcome: dict[str, Any]) -> str:
    return escape(f"means and intervals of {outcome['metric']} for {len(outcome['arms'])} arms")
