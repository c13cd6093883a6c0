"""Show which arm leads at which share of the budget, and where arms cross."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headtohead.comparison.analyses.budget_ranking import ArmRank, BudgetRanking
from headtohead.comparison.arm_colours import ArmStyle, styles_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import UNKNOWN, aim, axis_words
from headtohead.comparison.report.section_parts import (
    ArmName,
    Cell,
    Column,
    ReportFigure,
    ReportTable,
    ReportText,
    Section,
    SectionPart,
    chance_words,
    figure,
    with_chance,
)
from headtohead.comparison.tables.run_table import number
from headtohead.comparison.verdicts.verdict_text import coverage


def section(results: ComparisonResults) -> Section | None:
    """Return None where the whole budget is the only point."""
    result = results.ranking
    if result is None:
        return None
    return Section("Over the budget", "budget", tuple(_parts(results, result)))


def _parts(results: ComparisonResults, ranking: BudgetRanking) -> Iterator[SectionPart]:
    yield _curves(results, ranking)
    yield _table(results, ranking)
    for remark in ranking.remarks:
        yield ReportText(remark, "warning")
    if ranking.pairs:
        rows = [[sentence] for pair in ranking.pairs for sentence in pair.sentences]
        yield ReportTable([Column("crossing", wide=True)], rows, "Pairs of arms whose curves cross over the budget.")
    else:
        yield ReportText("No arms cross.", "note")


def _curves(results: ComparisonResults, ranking: BudgetRanking) -> ReportFigure:
    styles = styles_of(results)
    arms = [standing.arm for standing in ranking.shares[-1].standings]
    data = [_trace(ranking, arm, styles[arm]) for arm in arms]
    shares = [each.share for each in ranking.shares]
    layout = {
        "xaxis": {
            "type": "log",
            "title": {"text": "share of the budget"},
            "tickvals": shares,
            "ticktext": [f"{share:.0%}" for share in shares],
        },
        "yaxis": {"title": {"text": axis_words(results, ranking.metric)}},
    }
    caption = (
        f"{metric_words(ranking.metric).capitalize()} ({aim(results)}) at shares of the budget, each point a run of "
        f"its "
        f"own with its own schedule: means over seeds, with their {coverage(ranking.alpha)} t intervals."
    )
    form = with_chance({"data": data, "layout": layout}, results.chance())
    return figure(form, caption + chance_words(form, results.chance()))


def _trace(ranking: BudgetRanking, arm: str, style: ArmStyle) -> dict[str, Any]:
    own = [(each.share, next(s for s in each.standings if s.arm == arm)) for each in ranking.shares]
    ends = [standing.interval or (standing.mean, standing.mean) for _, standing in own]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": arm,
        "x": [share for share, _ in own],
        "y": [standing.mean for _, standing in own],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [_apart(high, standing.mean) for (_, high), (_, standing) in zip(ends, own, strict=True)],
            "arrayminus": [_apart(standing.mean, low) for (low, _), (_, standing) in zip(ends, own, strict=True)],
            "color": style.colour,
        },
        "line": {"color": style.colour, "dash": style.dash},
        "marker": {"color": style.colour, "symbol": style.symbol, "size": 8},
    }


def _apart(upper: float | None, lower: float | None) -> float | None:
    return None if upper is None or lower is None else upper - lower


def _table(results: ComparisonResults, ranking: BudgetRanking) -> ReportTable:
    columns = [Column("arm"), *(Column(f"at {each.share:.0%}", numeric=True) for each in ranking.shares)]
    rows: list[list[Cell]] = []
    for last in ranking.shares[-1].standings:
        row: list[Cell] = [ArmName(last.arm)]
        for each in ranking.shares:
            row.append(_standing(next(s for s in each.standings if s.arm == last.arm)))
        rows.append(row)
    return ReportTable(columns, rows, f"Rank and mean at each share of the budget ({aim(results)}).")


def _standing(standing: ArmRank) -> str:
    if standing.mean is None:
        return f"{standing.diverged} of {standing.seeds} diverged" if standing.diverged else UNKNOWN
    around = "" if standing.interval is None else f" [{', '.join(map(number, standing.interval))}]"
    return f"{standing.rank}. {number(standing.mean)}{around}"
