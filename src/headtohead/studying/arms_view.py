"""The arms of a study on a terminal: what each of them got and what it cost, in two tables where one is too wide."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from headtohead.comparing.arms import Costs, speed_in
from headtohead.comparing.table import chance_told, count, memory, number
from headtohead.comparing.verdict import Verdict
from headtohead.comparing.wording import OF_WHAT
from headtohead.studying.reporting import ArmResult, Report

_STYLES = {"better": "green", "worse": "red", "equivalent": "cyan", "undecided": "yellow"}
_UNKNOWN = "-"
_RESULTS = ("difference", "verdict", "seeds", "failures")
_WRAPPED = ("difference", "verdict")
"""Columns that break into lines before names have no room left."""
_WIDE = 10_000


class ArmsTable:
    """One line for each arm."""

    def __init__(self, report: Report) -> None:
        self._report = report
        unit, self._speed = speed_in(arm.costs for arm in report.arms)
        self._costs = ("parameters", "FLOPs", unit, "memory")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        results, costs = self._columns(), self._costs
        whole = self._table((*results[:3], *costs, *results[3:]))
        wanted = Measurement.get(console, options.update(max_width=_WIDE), whole).maximum
        yield from (whole,) if wanted <= options.max_width else (self._table(results), self._table(costs))

    def _columns(self) -> tuple[str, ...]:
        arrow = "↑" if self._report.study.direction == "max" else "↓"
        return (f"{self._report.study.metric} {arrow}", *_RESULTS)

    def _table(self, columns: tuple[str, ...]) -> Table:
        table = named_table("arm", *columns)
        if columns[0] == self._columns()[0]:
            table.caption, table.caption_justify = chance_told(self._report.chance), "left"
        for arm in self._report.arms:
            told = dict(
                zip((*self._columns(), *self._costs), (*self._results(arm), *self._spent(arm.costs)), strict=True)
            )
            table.add_row(Text(arm.arm), *(told[name] for name in columns))
        return table

    def _results(self, arm: ArmResult) -> tuple[str | Text, ...]:
        verdict = self._report.verdict_on(arm.arm)
        counted = (str(arm.finished), str(arm.failures))
        return (_mean(arm), *_against(self._report.study.baseline, arm, verdict), *counted)

    def _spent(self, costs: Costs) -> list[str]:
        figures = (costs.parameters, costs.flops, self._speed(costs))
        return [*map(count, figures), memory(costs.peak_memory_bytes)]


def named_table(first: str, *others: str) -> Table:
    """Names on the left, figures on the right."""
    table = Table(header_style="bold")
    table.add_column(Text(first), overflow="fold")
    for name in others:
        wraps = name in _WRAPPED
        table.add_column(
            Text(name), justify="right", overflow="fold", no_wrap=not wraps, min_width=len(name) if wraps else None
        )
    return table


def _mean(arm: ArmResult) -> str:
    return f"{number(arm.mean)}{_interval(arm.interval)}"


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f" [{number(bounds[0])}, {number(bounds[1])}]"


def _against(baseline: str, arm: ArmResult, verdict: Verdict | None) -> tuple[str | Text, str | Text]:
    if arm.arm == baseline:
        return "baseline", _UNKNOWN
    if verdict is None:
        return _UNKNOWN, _UNKNOWN
    told = verdict.answer + (" (exploratory)" if verdict.exploratory else "")
    return _apart(verdict), Text(told, style=_STYLES[verdict.kind])


def _apart(verdict: Verdict) -> str:
    """With its interval; where it is not one of the metric's means, what it is one of."""
    if verdict.difference is None:
        return _UNKNOWN
    of_what = OF_WHAT.get(verdict.method, "")
    return f"{verdict.difference + 0.0:+.3g}{_interval(verdict.interval)} {of_what}".rstrip()
