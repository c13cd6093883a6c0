"""Write the gallery: every shipped study with its question, its outcome, a figure, its command and its cost.

The files of `conf/study` tell all but the figures, which are drawn from `outcomes/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from headtohead.config.compose.choices import STUDY, Choice, choices
from headtohead.files.safe_read import read_yaml
from outcomes import outcome_of
from page_parts import FACTS, cell, slug, table
from study_headers import Header, header_of, linked

_WIDTH, _NAMES, _ROW = 640, 190, 26
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
    yield "figure shows each arm's mean over the seeds with its 95 % interval; a dashed line is chance. Figures are"
    yield "drawn from saved outcomes, and only while a study is the one that they came from. [Repeating the"
    yield "studies](studies.md) says what held on other seeds, [how a verdict is made](verdicts.md) what each word"
    yield "means."
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
    yield from _facts(choice, header, outcome)


def _facts(choice: Choice, header: Header, outcome: dict[str, Any] | None) -> Iterator[str]:
    yield from FACTS
    for label in ("Expected", "Found", "Not as expected", "Again"):
        if text := header.said(label):
            yield f"| {label.lower()} | {cell(linked(_sentence(text)))} |"
    if not any(header.said(label) for label in ("Found", "Not as expected", "Again")) and outcome is None:
        yield "| found | no outcome yet |"
    if outcome is not None:
        verdicts = " ".join(f"{verdict['sentence'].rstrip('.')}." for verdict in outcome["verdicts"])
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
        return _NAMES + (value - low + pad) / (high - low + 2 * pad) * (_WIDTH - _NAMES - 70)

    height = _ROW * len(arms) + 34
    lines = [f'<svg class="verdicts" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_label(outcome)}">']
    if near:
        lines.append(f'<line class="chance" x1="{x(chance):.1f}" x2="{x(chance):.1f}" y1="4" y2="{height - 26}"/>')
        lines.append(f'<text class="small" x="{x(chance):.1f}" y="{height - 10}" text-anchor="middle">chance</text>')
    for row, arm in enumerate(arms):
        y = _ROW * row + 18
        is_baseline = arm["arm"] == outcome["baseline"]
        colour = "baseline" if is_baseline else _COLOURS.get(kinds.get(arm["arm"], ""), "baseline")
        said = "baseline" if is_baseline else kinds.get(arm["arm"], "")
        name = arm["arm"] if len(arm["arm"]) <= 26 else f"{arm['arm'][:12]}…{arm['arm'][-12:]}"
        start, end = arm["interval"] or (arm["mean"], arm["mean"])
        title = f"{arm['arm']}: {arm['mean']:.4g} [{start:.4g}, {end:.4g}], {said}"
        lines.append(f'<g class="{colour}"><title>{escape(title)}</title>')
        lines.append(f'<text x="{_NAMES - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        lines.append(f'<line x1="{x(start):.1f}" x2="{x(end):.1f}" y1="{y}" y2="{y}"/>')
        lines.append(f'<circle cx="{x(arm["mean"]):.1f}" cy="{y}" r="4.5"/>')
        lines.append(f'<text class="small" x="{_WIDTH - 4}" y="{y + 4}" text-anchor="end">{arm["mean"]:.3g}</text></g>')
    better = "less is better" if outcome["direction"] == "min" else "more is better"
    caption = f"{outcome['metric']}, {better}, {outcome['seeds']} seeds from {outcome['first_seed']} on"
    lines.append(
        f'<text class="small" x="{_WIDTH - 4}" y="{height - 10}" text-anchor="end">{escape(caption)}</text></svg>'
    )
    return "\n".join(["```{raw} html", *lines, "```"])


def _label(outcome: dict[str, Any]) -> str:
    return escape(f"means and intervals of {outcome['metric']} for {len(outcome['arms'])} arms")
