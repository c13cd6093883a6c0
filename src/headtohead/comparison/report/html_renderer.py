"""Parts of a section as HTML; every text is escaped here, and nowhere else."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from headtohead.comparison.arm_colours import ArmStyle
from headtohead.comparison.contrasts import Kind, Verdict
from headtohead.comparison.report.number_format import signed, signed_between, with_minus
from headtohead.comparison.report.plotly_figures import plain_figure
from headtohead.comparison.report.section_parts import (
    ArmName,
    Badge,
    Cell,
    Code,
    CollapsedParts,
    Column,
    Picture,
    PictureGrid,
    ReportFigure,
    ReportTable,
    ReportText,
    Section,
    SectionPart,
    Stacked,
    VerdictList,
)
from headtohead.comparison.verdicts.verdict_text import sentence

_SIGNS: Mapping[Kind, str] = {"better": "▲", "worse": "▼", "equivalent": "≈", "undecided": "?"}
_NARROWEST, _WIDEST, _ALL_TILES = 88, 210, 800
"""Pixels of a picture, and of all that stand in a row."""
_MARKERS = {
    "circle": '<circle cx="14" cy="7" r="3.6"/>',
    "square": '<rect x="10.6" y="3.6" width="6.8" height="6.8"/>',
    "diamond": '<path d="M14 2.4 18.4 7 14 11.6 9.6 7z"/>',
    "triangle-up": '<path d="M14 2.6 18.4 10.4H9.6z"/>',
    "triangle-down": '<path d="M14 11.4 18.4 3.6H9.6z"/>',
    "cross": '<path d="M12.6 2.6h2.8v3h3v2.8h-3v3h-2.8v-3h-3V5.6h3z"/>',
    "pentagon": '<path d="M14 2.4 18.4 5.7 16.7 10.8H11.3L9.6 5.7z"/>',
    "star": '<path d="M14 1.8 15.4 5.4 19 5.6 16.2 8 17.1 11.6 14 9.6 10.9 11.6 11.8 8 9 5.6 12.6 5.4z"/>',
}
_DASHES = {"dash": "5 3", "dot": "1.5 2.5", "dashdot": "5 2 1.5 2", "longdash": "8 3", "longdashdot": "8 2 1.5 2"}


class HtmlRenderer:
    """Turns sections into HTML and collects the figures that the page's script will draw."""

    def __init__(self, styles: Mapping[str, ArmStyle]) -> None:
        self._styles = styles
        self.figures: list[dict[str, Any]] = []
        self._numbers = {"figure": 0, "table": 0}

    def section(self, section: Section) -> str:
        anchor = escape(section.anchor)
        link = f'<a class="anchor" href="#{anchor}" aria-label="link to this section">#</a>'
        heading = f'<h2 id="{anchor}-title">{escape(section.title)}{link}</h2>'
        inner = "\n".join(map(self.part, section.parts))
        return f'<section id="{anchor}" aria-labelledby="{anchor}-title">\n{heading}\n{inner}\n</section>'

    def part(self, part: SectionPart) -> str:
        match part:
            case ReportText():
                return f'<p class="{part.tone}">{_prose(part.text)}</p>'
            case Code():
                return _code_block(part.text)
            case ReportTable():
                return self._table(part)
            case ReportFigure():
                return self._figure(part)
            case PictureGrid():
                return self._pictures(part)
            case VerdictList():
                reach = reach_of(part.verdicts)
                return "\n".join(self._answer(verdict, reach, part.judged_by) for verdict in part.verdicts)
            case CollapsedParts():
                inner = "\n".join(map(self.part, part.parts))
                printed = " data-printed" if part.printed else ""
                return f"<details{printed}><summary>{_written(part.summary)}</summary>\n{inner}\n</details>"

    def _table(self, table: ReportTable) -> str:
        head = "".join(f'<th scope="col"{_class(column)}>{escape(column.label)}</th>' for column in table.columns)
        rows = "\n".join(f"<tr>{''.join(self._cells(table.columns, row))}</tr>" for row in table.rows)
        grid = f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>"
        box = f'<div class="scroll" tabindex="0" role="region" aria-label="table">{grid}</div>'
        caption = f"<figcaption>{self._caption('table', table.caption)}</figcaption>" if table.caption else ""
        return f'<figure class="tabular">{caption}{box}</figure>'

    def _cells(self, columns: Sequence[Column], row: Sequence[Cell]) -> Iterator[str]:
        for index, (column, cell) in enumerate(zip(columns, row, strict=True)):
            if index == 0:
                yield f'<th scope="row"{_class(column)}>{self._cell(cell)}</th>'
            else:
                yield f"<td{_class(column)}>{self._cell(cell)}</td>"

    def _cell(self, cell: Cell) -> str:
        match cell:
            case str():
                return _prose(cell)
            case ArmName():
                return self._arm(cell.name)
            case Badge():
                return _badge(cell.kind) + _chip(cell.why) + (_EXPLORATORY if cell.exploratory else "")
            case Code():
                return f"<code>{_breakable(cell.text)}</code>"
            case Stacked():
                return f'{_written(cell.text)}<span class="below">{_written(cell.below)}</span>'

    def _arm(self, name: str) -> str:
        style = self._styles.get(name)
        return f'<span class="arm">{_swatch(style) if style else ""}{escape(name)}</span>'

    def _figure(self, figure: ReportFigure) -> str:
        number = len(self.figures)
        self.figures.append(plain_figure(figure))
        rows = []
        for index, control in enumerate(figure.controls):
            if len(control.options) < 2:
                continue
            buttons = "".join(
                f'<button type="button" data-option="{escape(option)}" aria-pressed="{_boolean(first == 0)}">'
                f"{escape(option)}</button>"
                for first, option in enumerate(control.options)
            )
            label = escape(control.label)
            rows.append(
                f'<div class="control" role="group" aria-label="{label}" data-control="{index}">'
                f"<span>{label}</span><div>{buttons}</div></div>"
            )
        controls = f'<div class="controls">{"".join(rows)}</div>' if rows else ""
        hint = f' <span class="hint">{_prose(figure.hint)}</span>' if figure.hint else ""
        caption = self._caption("figure", figure.caption) + hint
        plot = f'<div class="plot" data-figure="{number}"></div>{self._files()}'
        return f'<figure class="chart">{controls}{plot}<figcaption>{caption}</figcaption></figure>'

    def _pictures(self, grid: PictureGrid) -> str:
        head = "".join(f'<th scope="col">{self._cell(column)}</th>' for column in grid.columns)
        rows = []
        for heading, cells in grid.rows:
            tiles = "".join(f"<td>{_tiles(cell)}</td>" for cell in cells)
            rows.append(f'<tr><th scope="row">{self._cell(heading)}</th>{tiles}</tr>')
        inner = f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        box = f'<div class="scroll" tabindex="0" role="region" aria-label="pictures">{inner}</div>'
        caption = self._caption("figure", grid.caption)
        across = max(
            (sum(1 if isinstance(cell, str) else len(cell) for cell in cells) for _, cells in grid.rows), default=1
        )
        wide = min(max(_NARROWEST, _ALL_TILES // max(1, across)), _WIDEST)
        inside = f"{box}{self._files()}<figcaption>{caption}</figcaption>"
        return f'<figure class="maps" style="--tile:{wide}px">{inside}</figure>'

    def _answer(self, verdict: Verdict, reach: float, judged_by: str) -> str:
        names = f'{self._arm(verdict.arm)}<span class="against">against</span>{self._arm(verdict.baseline)}'
        flag = _EXPLORATORY if verdict.exploratory else ""
        text = f'<p class="sentence">{_prose(sentence(replace(verdict, reasons=())))}</p>'
        reasons = (
            f'<p class="reasons">Exploratory: {_prose("; ".join(verdict.reasons))}.</p>' if verdict.reasons else ""
        )
        where = f'<p class="judged">{escape(judged_by)}</p>' if judged_by else ""
        head = f"<header>{_badge(verdict.kind)}{_chip(verdict.why)}{flag}<h3>{names}</h3></header>{where}"
        content = f"<div>{head}{text}{reasons}</div>{strip(verdict, reach)}"
        return f'<article class="answer {verdict.kind}">{content}</article>'

    def _files(self) -> str:
        """Return the buttons that save the figure whose caption was written last."""
        name = f"figure {self._numbers['figure']}"
        return (
            f'<div class="files"><button type="button" data-file="svg" aria-label="{name} as SVG">SVG</button>'
            f'<button type="button" data-file="csv" aria-label="the numbers of {name} as CSV">CSV</button></div>'
        )

    def _caption(self, kind: str, text: str) -> str:
        """Numbered; the first sentence stands out."""
        self._numbers[kind] += 1
        first, stop, rest = text.partition(". ")
        opening = _prose(first + stop.rstrip())
        return f"<b>{kind.capitalize()} {self._numbers[kind]}.</b> <strong>{opening}</strong> {_prose(rest)}".rstrip()


_EXPLORATORY = '<span class="chip">exploratory</span>'


def _badge(kind: Kind) -> str:
    return f'<span class="badge {kind}"><span aria-hidden="true">{_SIGNS[kind]}</span>{kind}</span>'


def _chip(text: str) -> str:
    return f'<span class="chip">{_written(text)}</span>' if text else ""


def _breakable(text: str) -> str:
    """Let the name of a class go on in another line after each dot."""
    return text.replace(".", ".<wbr>") if re.fullmatch(r"\w+(\.\w+)*\.[A-Z]\w*", text) else escape(text)


def _prose(text: str) -> str:
    """Figures and what belongs to them stay on one line: 95 %, p = 0.01."""
    return re.sub(r"(?<=\d) (?=%)|(?<=\bp) (?=[=&])|(?<=[=;]) (?=[−\d])", "&nbsp;", _written(text))


def _written(text: str) -> str:
    """Return a text with the minus of its negative numbers; code and names go without."""
    return escape(with_minus(text))


def _swatch(style: ArmStyle) -> str:
    dashes = _DASHES.get(style.dash, style.dash.replace("px", "").replace(",", " "))
    dash = "" if style.dash == "solid" else f' stroke-dasharray="{dashes}"'
    line = f'<path d="M0 7H28" fill="none"{dash}/>'
    colour = f'style="--own:var({style.colour})"'
    return (
        f'<svg class="swatch" {colour} width="28" height="14" aria-hidden="true">{line}{_MARKERS[style.symbol]}</svg>'
    )


def _code_block(text: str) -> str:
    copy = '<button type="button" class="copy">copy</button>'
    return f'<div class="code">{copy}<pre tabindex="0"><code>{escape(text)}</code></pre></div>'


def _tiles(cell: Sequence[Picture] | str) -> str:
    if isinstance(cell, str):
        return f'<p class="note">{_prose(cell)}</p>'
    return f'<div class="tiles">{"".join(map(_tile, cell))}</div>'


def _tile(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode()
    if picture.rows:
        return f"<div>{_named_picture(picture, data)}<span>{_written(picture.below)}</span></div>"
    alt = escape(picture.alt)
    image = f'<img src="data:image/png;base64,{data}" alt="{alt}" title="{alt}"{_scale(picture)}>'
    return f"<div>{image}<span>{_written(picture.below)}</span></div>"


def _scale(picture: Picture) -> str:
    """Return the attributes from which the page makes a table of the picture's numbers."""
    if picture.scale is None:
        return ""
    low, high, clipped = picture.scale
    ends = f' data-low="{low:.9g}" data-high="{high:.9g}"{" data-clipped" if clipped else ""}'
    tokens = f' data-tokens="{escape(json.dumps([picture.rows, picture.columns]))}"' if picture.rows else ""
    return ends + tokens


_CELL, _LABELS, _LETTERS = 11, 62, 9


def _named_picture(picture: Picture, data: str) -> str:
    """Return an SVG of the picture with the names of its rows and columns, which the page's theme colours."""
    wide, high = _CELL * len(picture.columns), _CELL * len(picture.rows)
    edge = _LABELS - 4
    middles = [f"{_LABELS + _CELL * (index + 0.72):.1f}" for index in range(max(wide, high) // _CELL)]
    rows = "".join(
        f'<text x="{edge}" y="{middle}" text-anchor="end">{escape(_cut(name))}</text>'
        for middle, name in zip(middles, picture.rows, strict=False)
    )
    columns = "".join(
        f'<text transform="translate({middle} {edge}) rotate(-90)">{escape(_cut(name))}</text>'
        for middle, name in zip(middles, picture.columns, strict=False)
    )
    image = (
        f'<image x="{_LABELS}" y="{_LABELS}" width="{wide}" height="{high}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{data}"{_scale(picture)}/>'
    )
    size = f'viewBox="0 0 {_LABELS + wide} {_LABELS + high}" width="{_LABELS + wide}"'
    return (
        f'<svg class="named" {size} role="img" aria-label="{escape(picture.alt)}" font-size="{_LETTERS}">'
        f"{image}{rows}{columns}</svg>"
    )


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"


_MOST_LETTERS = 10


def _class(column: Column) -> str:
    names = [name for name, on in (("numeric", column.numeric), ("wide", column.wide)) if on]
    return f' class="{" ".join(names)}"' if names else ""


def _boolean(value: bool) -> str:
    return "true" if value else "false"


_WIDTH, _HEIGHT, _EDGE = 220, 30, 8
_OF_MEANS = ("paired t", "Welch's t", "e-process")


def reach_of(verdicts: Sequence[Verdict]) -> float:
    """Return how far from zero the drawings reach, so that all share one scale."""
    ends = [abs(end) for verdict in verdicts if _shown(verdict) for end in verdict.interval or ()]
    return max([*ends, *(1.25 * verdict.margin for verdict in verdicts if verdict.margin)], default=0.0)


def strip(verdict: Verdict, reach: float) -> str:
    """HTML: counts where rates decide; empty where there is no interval of means either."""
    if verdict.solved is not None and verdict.of is not None:
        first, second = (f"{solved} of {of}" for solved, of in zip(verdict.solved, verdict.of, strict=True))
        return f'<div class="strip"><p>{first} solved<span>against {second}</span></p></div>'
    if not _shown(verdict) or verdict.interval is None or verdict.difference is None or not reach:
        return ""
    middle, half = _HEIGHT / 2, (_WIDTH / 2 - _EDGE) / reach

    def across(value: float) -> str:
        return f"{_WIDTH / 2 + half * value:.1f}"

    low, high = (across(end) for end in verdict.interval)
    parts = []
    if verdict.margin:
        wide = f"{2 * half * verdict.margin:.1f}"
        parts.append(f'<rect class="margin" x="{across(-verdict.margin)}" y="0" width="{wide}" height="{_HEIGHT}"/>')
    parts.append(f'<path class="axis" d="M{_EDGE} {middle}H{_WIDTH - _EDGE}"/>')
    parts.append(f'<path class="zero" d="M{across(0)} 0V{_HEIGHT}"/>')
    parts.append(f'<path class="interval" d="M{low} {middle}H{high}M{low} {middle - 5}v10M{high} {middle - 5}v10"/>')
    parts.append(f'<circle cx="{across(verdict.difference)}" cy="{middle}" r="4.5"/>')
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    label = f"{signed(verdict.difference)}<span>{signed_between(verdict.interval)}</span>"
    return f'<div class="strip"><svg {size} aria-hidden="true">{"".join(parts)}</svg><p>{label}</p></div>'


def _shown(verdict: Verdict) -> bool:
    return verdict.method in _OF_MEANS and verdict.interval is not None
