"""All arms in one table: what came out, at what cost, over how many seeds."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from headtohead.comparing.arms import costs_of
from headtohead.comparing.findings import Findings, FoundArm
from headtohead.comparing.report.parts import ArmName, Badge, Cell, Column, Section, Stacked, Table
from headtohead.comparing.report.words import UNKNOWN, aim, between, level, metric_words, signed, signed_between
from headtohead.comparing.statistics.means import interval_of
from headtohead.comparing.table import count, memory, number

_NUMBERS = ("parameters", "FLOPs", "tokens/s", "memory", "seeds", "failures")


def section(findings: Findings) -> Section | None:
    metric = metric_words(findings.metric)
    columns = [Column("arm"), Column(metric, numeric=True), Column("difference", numeric=True), Column("verdict")]
    columns += [Column(name, numeric=True) for name in _NUMBERS]
    first = [arm for arm in findings.arms if arm.name == findings.baseline]
    others = [arm for arm in findings.arms if arm.name != findings.baseline]
    rows = [list(_row(findings, arm)) for arm in (*first, *others)]
    caption = (
        f"What came out and what it cost. {metric.capitalize()} ({aim(findings)}) is the mean over the seeds that "
        f"finished, with its {level(findings.alpha)} interval after Student below it; differences are arm minus "
        f"{findings.baseline}, paired by seed where data are shared. FLOPs are those of training one run; memory is "
        "the most that a run took; failures are runs that diverged, ran out of memory or broke off."
    )
    described = [arm for arm in (*first, *others) if arm.description]
    tables = [Table(columns, rows, caption)]
    if described:
        told: list[list[Cell]] = [[ArmName(arm.name), arm.description or ""] for arm in described]
        tables.append(Table([Column("arm"), Column("what it is", wide=True)], told))
    return Section("Arms", "arms", tables)


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
        yield Stacked(signed(verdict.difference), signed_between(verdict.interval))
        yield Badge(verdict.kind, verdict.exploratory)
    costs = costs_of(arm.records)
    figures = [count(costs.parameters), count(costs.flops), count(costs.tokens_per_second)]
    counts = [memory(costs.peak_memory_bytes), str(len(arm.records)), str(len(arm.failures))]
    for figure in (*figures, *counts):
        yield UNKNOWN if figure == "-" else figure
