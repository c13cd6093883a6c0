"""All arms in one table: what came out, at what cost, over how many seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from headtohead.comparing.arms import Costs, costs_of, speed_in
from headtohead.comparing.findings import Findings, FoundArm
from headtohead.comparing.report.parts import ArmName, Badge, Cell, Code, Column, Section, Stacked, Table
from headtohead.comparing.report.words import UNKNOWN, aim, between, level, metric_words, signed, signed_between
from headtohead.comparing.statistics.means import interval_of
from headtohead.comparing.table import count, memory, number
from headtohead.comparing.wording import OF_WHAT


def section(findings: Findings) -> Section | None:
    metric = metric_words(findings.metric)
    columns = [Column("arm"), Column(metric, numeric=True), Column("difference", numeric=True), Column("verdict")]
    unit, _ = _speed(findings)
    names = ("parameters", "FLOPs", unit, "memory", "seeds", "failures")
    columns += [Column(name, numeric=True) for name in names]
    first = [arm for arm in findings.arms if arm.name == findings.baseline]
    others = [arm for arm in findings.arms if arm.name != findings.baseline]
    rows = [list(_row(findings, arm)) for arm in (*first, *others)]
    caption = (
        f"What came out and what it cost. {metric.capitalize()} ({aim(findings)}) is the mean over the seeds that "
        f"finished, with its {level(findings.alpha)} interval after Student below it; differences are arm minus "
        f"{findings.baseline}, paired by seed where data are shared. FLOPs are those of training one run; memory is "
        "the most that a run took; failures are runs that diverged, ran out of memory or broke off."
    )
    if findings.verdicts and all(verdict.exploratory for verdict in findings.verdicts):
        caption += " All verdicts are exploratory."
    tables = [Table(columns, rows, caption)]
    if any(arm.overrides or arm.description for arm in findings.arms):
        tables.append(_what_they_are([*first, *others]))
    return Section("Arms", "arms", tables)


def _what_they_are(arms: Sequence[FoundArm]) -> Table:
    with_words = any(arm.description for arm in arms)
    rows: list[list[Cell]] = []
    for arm in arms:
        words = [arm.description or UNKNOWN] if with_words else []
        rows.append([ArmName(arm.name), *words, Code(" ".join(arm.overrides)) if arm.overrides else UNKNOWN])
    words_column = [Column("what it is", wide=True)] if with_words else []
    return Table([Column("arm"), *words_column, Column("set apart by", wide=True)], rows)


def _speed(findings: Findings) -> tuple[str, Callable[[Costs], float | None]]:
    return speed_in(costs_of(arm.records) for arm in findings.arms)


def _row(findings: Findings, arm: FoundArm) -> Iterator[Cell]:
    yield ArmName(arm.name)
    values = arm.values
    mean = number(fmean(values)) if values else UNKNOWN
    yield Stacked(mean, between(interval_of(values, findings.alpha)))
    verdict = findings.verdict_on(arm.name)
    if verdict is None:
        yield UNKNOWN
        yield "baseline" if arm.name == findings.baseline else UNKNOWN
    else:
        of_what = OF_WHAT.get(verdict.method, "")
        yield Stacked(signed(verdict.difference), f"{signed_between(verdict.interval)} {of_what}".strip())
        yield Badge(verdict.kind, verdict.exploratory and not all(one.exploratory for one in findings.verdicts))
    costs = costs_of(arm.records)
    figures = [count(costs.parameters), count(costs.flops), count(_speed(findings)[1](costs))]
    counts = [memory(costs.peak_memory_bytes), str(len(arm.records)), str(len(arm.failures))]
    for figure in (*figures, *counts):
        yield UNKNOWN if figure == "-" else figure
