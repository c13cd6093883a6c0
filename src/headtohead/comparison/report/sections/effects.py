"""Show what the factors of an ablation do, alone and together, and which combinations could not be built."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

from headtohead.comparison.analyses.effects import EffectEstimate, Effects
from headtohead.comparison.analyses.effects_text import certainty, explained
from headtohead.comparison.arm_colours import INK, numbered_style
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import signed
from headtohead.comparison.report.section_parts import (
    Column,
    Control,
    ReportFigure,
    ReportTable,
    ReportText,
    Section,
    SectionPart,
    chance_words,
    figure,
    with_chance,
)
from headtohead.comparison.verdicts.verdict_text import coverage

_ROW = 30
"""Pixels of a figure for each of its rows."""


def section(results: ComparisonResults) -> Section | None:
    if results.effects is None and not results.left_out:
        return None
    return Section("Effects of the factors", "effects", tuple(_parts(results)))


def _parts(results: ComparisonResults) -> Iterator[SectionPart]:
    effects = results.effects
    if effects is not None:
        yield ReportText(explained(effects))
        for remark in effects.remarks:
            yield ReportText(remark, "warning")
        sentences = [effect for effect in effects.effects if effect.difference is not None]
        if sentences:
            yield _forest(effects, sentences)
        yield _table(effects)
        if effects.crossed and len(effects.factors) > 1:
            yield _together(effects, results.chance())
    if results.left_out:
        rows = [[arm, reason] for arm, reason in results.left_out]
        caption = "Combinations of the design that cannot be built and were skipped."
        yield ReportTable([Column("combination"), Column("reason", wide=True)], rows, caption)


def _forest(effects: Effects, sentences: Sequence[EffectEstimate]) -> ReportFigure:
    metric = metric_words(effects.metric)
    rows = list(reversed(sentences))
    reach = [(e.interval or (e.difference, e.difference)) for e in rows]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [effect.difference for effect in rows],
        "y": [effect.name for effect in rows],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [_apart(high, effect) for effect, (_, high) in zip(rows, reach, strict=True)],
            "arrayminus": [-_apart(low, effect) for effect, (low, _) in zip(rows, reach, strict=True)],
            "color": INK,
        },
        "marker": {"color": INK, "size": 9, "symbol": ["diamond" if e.is_interaction else "circle" for e in rows]},
        "hovertemplate": "%{y}: %{x:+.3g}<extra></extra>",
        "showlegend": False,
    }
    layout = {
        "height": 110 + _ROW * len(rows),
        "xaxis": {
            "title": {"text": f"effect on {metric}"},
            "zeroline": True,
            "zerolinecolor": INK,
            "zerolinewidth": 1.2,
        },
        "yaxis": {"type": "category", "automargin": True, "range": [-0.7, len(rows) - 0.3]},
    }
    better = "left" if effects.direction == "min" else "right"
    caption = (
        f"Effects on {metric}, with {coverage(effects.level)} intervals over {len(effects.seeds)} seeds; further to "
        f"the {better} is better. Circles: a level against the base's. Diamonds: by how much the effect of two factors "
        "exceeds the sum of both."
    )
    return figure({"data": [trace], "layout": layout}, caption)


def _apart(bound: float | None, effect: EffectEstimate) -> float:
    assert bound is not None and effect.difference is not None, "asked only of estimable effects"
    return bound - effect.difference


def _table(effects: Effects) -> ReportTable:
    columns = [Column("effect"), Column("difference", numeric=True), Column("p", numeric=True)]
    columns += [Column("detectable", numeric=True), Column("reading", wide=True)]
    rows = []
    for effect in effects.effects:
        p = "–" if effect.p_adjusted is None else f"{effect.p_adjusted:.2g}"
        detectable = "–" if effect.detectable is None else f"±{effect.detectable:.2g}"
        rows.append([effect.name, signed(effect.difference, effect.interval), p, detectable, certainty(effect)])
    explored = (
        ", of exploratory ones by Benjamini and Hochberg's" if any(e.exploratory for e in effects.effects) else ""
    )
    caption = (
        f"Differences with their {coverage(effects.level)} intervals; p-values by Holm's method{explored}, for all "
        f"estimable "
        "effects; detectable is the smallest effect that 80 % of studies with as many seeds would find."
    )
    return ReportTable(columns, rows, caption)


def _together(effects: Effects, chance: float | None) -> ReportFigure:
    """Lines that are not parallel interact."""
    pairs = list(combinations(effects.factors, 2))
    names = [f"{one} and {other}" for one, other in pairs]
    forms: dict[tuple[str, ...], Any] = {
        ((name,) if len(pairs) > 1 else ()): _lines(effects, *pair, chance)
        for name, pair in zip(names, pairs, strict=True)
    }
    over = "all seeds" if len(effects.factors) == 2 else "the other factors and all seeds"
    caption = (
        f"Mean {metric_words(effects.metric)} of the arms that have both levels, over {over}; bars reach from the "
        f"lowest of these runs to the highest. Parallel lines mean no interaction."
        f"{chance_words(next(iter(forms.values())), chance)}"
    )
    return ReportFigure(forms, caption, (Control("factors", names),) if len(pairs) > 1 else ())


def _lines(effects: Effects, across: str, apart: str, chance: float | None) -> dict[str, Any]:
    traces = []
    levels = _by_size(effects.factors[across])
    for index, level_apart in enumerate(effects.factors[apart]):
        style = numbered_style(index)
        colour = INK if index == 0 else style.colour
        points = [_values(effects, {across: one, apart: level_apart}) for one in levels]
        means = [fmean(values) if values else None for values in points]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"{apart}={level_apart}",
                "x": levels,
                "y": means,
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [max(values) - fmean(values) if values else 0.0 for values in points],
                    "arrayminus": [fmean(values) - min(values) if values else 0.0 for values in points],
                    "color": colour,
                    "thickness": 1,
                    "width": 3,
                },
                "line": {"color": colour, "dash": style.dash},
                "marker": {"color": colour, "symbol": style.symbol, "size": 9},
            }
        )
    axis = {"title": {"text": metric_words(effects.metric)}}
    layout = {"xaxis": {"type": "category", "title": {"text": across}}, "yaxis": axis, "height": 380}
    form = {"data": traces, "layout": layout}
    return with_chance(form, None if chance is None else dict.fromkeys(levels, chance))


def _values(effects: Effects, levels: dict[str, str]) -> list[float]:
    """Return the runs of all arms that have these levels."""
    cells = [cell for cell in effects.cells if levels.items() <= dict(cell.levels).items()]
    return [value for cell in cells for value in cell.values]


def _by_size(levels: Sequence[str]) -> list[str]:
    """Return sizes of one kind in their order, w8 before w16 whichever is the base; other levels as they are."""
    sizes = {level: size for level in levels if (size := re.fullmatch(r"(\D*)(\d+)", level))}
    if len(sizes) < len(levels) or len({size[1] for size in sizes.values()}) > 1:
        return list(levels)
    return sorted(levels, key=lambda level: int(sizes[level][2]))
