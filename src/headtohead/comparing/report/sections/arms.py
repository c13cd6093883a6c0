"""All arms in one table: what came out, at what cost, over how many seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean

from headtohead.comparing.arms import Costs, costs_of, speed_in
from headtohead.comparing.findings import Findings, FoundArm
from headtohead.comparing.intervals import mean_interval
from headtohead.comparing.report.parts import ArmName, Badge, Cell, Code, Column, Section, Stacked, Table
from headtohead.comparing.report.words import UNKNOWN, aim, between, level, metric_words, signed, signed_between
from headtohead.comparing.table import count, memory, number
from headtohead.comparing.wording import OF_WHAT


def section(findings: Findings) -> Section | None:
    metric = metric_words(findings.metric)
    columns = [Column("arm"), Column(metric, numeric=True), Column("difference", numeric=True), Column("verdict")]
    told = _costs(findings)
    columns += [Column(name, numeric=True) for name in (*told, "seeds", "failures")]
    first = [arm for arm in findings.arms if arm.name == findings.baseline]
    others = [arm for arm in findings.arms if arm.name != findings.baseline]
    rows = [list(_row(findings, arm, told.values())) for arm in (*first, *others)]
    caption = (
        f"What came out and what it cost. {metric.capitalize()} ({aim(findings)}) is the mean over the seeds that "
        f"finished, with its {level(findings.alpha)} interval after Student below it; differences are arm minus "
        f"{findings.baseline}, paired by seed where data are shared. {_of_chance(findings)}{_explained(told)}"
        "Failures are runs that diverged, ran out of memory or broke off."
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


def _explained(told: Iterable[str]) -> str:
    what = {"FLOPs": "FLOPs are those of training one run", "memory": "memory is the most that a run took"}
    words = "; ".join(what[name] for name in told if name in what)
    return f"{words[:1].upper()}{words[1:]}. " if words else ""


def _of_chance(findings: Findings) -> str:
    chance = findings.chance()
    return "" if chance is None else f"Chance, what a model that learned nothing gets, is {number(chance)}. "


def _costs(findings: Findings) -> dict[str, Callable[[Costs], str]]:
    """Those that are known of some arm."""
    known = [costs_of(arm.records) for arm in findings.arms]
    unit, speed = speed_in(known)
    shown: dict[str, Callable[[Costs], str]] = {
        "parameters": lambda costs: count(costs.parameters),
        "FLOPs": lambda costs: count(costs.flops),
        unit: lambda costs: count(speed(costs)),
        "memory": lambda costs: memory(costs.peak_memory_bytes),
    }
    return {name: of for name, of in shown.items() if any(of(costs) != "-" for costs in known)}


def _row(findings: Findings, arm: FoundArm, told: Iterable[Callable[[Costs], str]]) -> Iterator[Cell]:
    yield ArmName(arm.name)
    values = arm.values
    mean = number(fmean(values)) if values else UNKNOWN
    yield Stacked(mean, between(mean_interval(values, findings.alpha, findings.measured)))
    verdict = findings.verdict_on(arm.name)
    if verdict is None:
        yield UNKNOWN
        yield "baseline" if arm.name == findings.baseline else UNKNOWN
    else:
        of_what = OF_WHAT.get(verdict.method, "")
        yield Stacked(signed(verdict.difference), f"{signed_between(verdict.interval)} {of_what}".strip())
        is_odd = verdict.exploratory and not all(one.exploratory for one in findings.verdicts)
        yield Badge(verdict.kind, is_odd, verdict.why)
    costs = costs_of(arm.records)
    for figure in (*(of(costs) for of in told), str(len(arm.records)), str(len(arm.failures))):
        yield UNKNOWN if figure == "-" else figure
