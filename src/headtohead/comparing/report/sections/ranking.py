"""Who leads at which share of the budget, and where arms cross."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headtohead.comparing.findings import Findings
from headtohead.comparing.ranking import Ranking, Standing
from headtohead.comparing.report.chance import chance_words, with_chance
from headtohead.comparing.report.parts import ArmName, Cell, Column, Figure, Part, Section, Table, Text, figure
from headtohead.comparing.report.theme import Style, styles_of
from headtohead.comparing.report.words import UNKNOWN, aim, level, metric_words
from headtohead.comparing.table import number


def section(findings: Findings) -> Section | None:
    """None where the whole budget is the only point."""
    found = findings.ranking
    if found is None:
        return None
    return Section("Over the budget", "budget", tuple(_parts(findings, found)))


def _parts(findings: Findings, found: Ranking) -> Iterator[Part]:
    yield _curves(findings, found)
    yield _table(findings, found)
    for remark in found.remarks:
        yield Text(remark, "warning")
    if found.pairs:
        rows = [[told] for pair in found.pairs for told in pair.sentences]
        yield Table([Column("crossing", wide=True)], rows, "Pairs of arms whose curves cross over the budget.")
    else:
        yield Text("No two arms cross.", "note")


def _curves(findings: Findings, found: Ranking) -> Figure:
    styles = styles_of(findings)
    arms = [standing.arm for standing in found.shares[-1].standings]
    data = [_trace(found, arm, styles[arm]) for arm in arms]
    shares = [each.share for each in found.shares]
    layout = {
        "xaxis": {
            "type": "log",
            "title": {"text": "share of the budget"},
            "tickvals": shares,
            "ticktext": [f"{share:.0%}" for share in shares],
        },
        "yaxis": {"title": {"text": metric_words(found.metric)}},
    }
    caption = (
        f"{metric_words(found.metric).capitalize()} ({aim(findings)}) at shares of the budget, each point a run of its "
        f"own with its own schedule: means over seeds, with their {level(found.alpha)} intervals after Student."
    )
    form = with_chance({"data": data, "layout": layout}, findings.chance())
    return figure(form, caption + chance_words(form, findings.chance()))


def _trace(found: Ranking, arm: str, style: Style) -> dict[str, Any]:
    own = [(each.share, next(s for s in each.standings if s.arm == arm)) for each in found.shares]
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


def _table(findings: Findings, found: Ranking) -> Table:
    columns = [Column("arm"), *(Column(f"at {each.share:.0%}", numeric=True) for each in found.shares)]
    rows: list[list[Cell]] = []
    for last in found.shares[-1].standings:
        row: list[Cell] = [ArmName(last.arm)]
        for each in found.shares:
            row.append(_standing(next(s for s in each.standings if s.arm == last.arm)))
        rows.append(row)
    return Table(columns, rows, f"Rank and mean at each share of the budget ({aim(findings)}).")


def _standing(standing: Standing) -> str:
    if standing.mean is None:
        return f"{standing.diverged} of {standing.seeds} diverged" if standing.diverged else UNKNOWN
    around = "" if standing.interval is None else f" [{', '.join(map(number, standing.interval))}]"
    return f"{standing.rank}. {number(standing.mean)}{around}"
