"""All arms in one table: the results, at what cost, over how many seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from statistics import fmean

from headtohead.comparison.arms import ArmCosts, costs_of, speed_in
from headtohead.comparison.comparison_results import ArmResult, ComparisonResults, RunResult
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import UNKNOWN, aim, between, signed, signed_between
from headtohead.comparison.report.section_parts import ArmName, Badge, Cell, Code, Column, ReportTable, Section, Stacked
from headtohead.comparison.statistics.means import mean_interval
from headtohead.comparison.tables.run_table import count, energy, memory, number
from headtohead.comparison.verdicts.verdict_text import OF_WHAT, coverage


def section(results: ComparisonResults) -> Section | None:
    metric = metric_words(results.metric)
    columns = [Column("arm"), Column(metric, numeric=True), Column("difference", numeric=True), Column("verdict")]
    costs = _costs(results)
    columns += [Column(name, numeric=True) for name in (*costs, "seeds", "failures")]
    first = [arm for arm in results.arms if arm.name == results.baseline]
    others = [arm for arm in results.arms if arm.name != results.baseline]
    rows = [list(_row(results, arm, costs.values())) for arm in (*first, *others)]
    caption = (
        f"Results and costs. {metric.capitalize()} ({aim(results)}) is the mean over the seeds that "
        f"finished, with its {coverage(results.alpha)} t interval below it; differences are arm minus "
        f"{results.baseline}, paired by seed where data are shared. {_of_chance(results)}{_explained(costs)}"
        "Failures are runs that diverged, ran out of memory or were interrupted."
    )
    if results.verdicts and all(verdict.exploratory for verdict in results.verdicts):
        caption += " All verdicts are exploratory."
    tables = [ReportTable(columns, rows, caption)]
    if any(arm.overrides or arm.description for arm in results.arms):
        tables.append(_what_they_are([*first, *others]))
    return Section("Arms", "arms", tables)


def _what_they_are(arms: Sequence[ArmResult]) -> ReportTable:
    with_words = any(arm.description for arm in arms)
    rows: list[list[Cell]] = []
    for arm in arms:
        words = [arm.description or UNKNOWN] if with_words else []
        rows.append([ArmName(arm.name), *words, Code(" ".join(arm.overrides)) if arm.overrides else UNKNOWN])
    words_column = [Column("what it is", wide=True)] if with_words else []
    return ReportTable([Column("arm"), *words_column, Column("set apart by", wide=True)], rows)


def _explained(sentences: Iterable[str]) -> str:
    what = {
        "FLOPs": "FLOPs are those of training one run",
        "memory": "memory is the peak of a run",
        "energy": "energy is that of training one run, as the counters of its packages or boards measure it",
    }
    words = "; ".join(what[name] for name in sentences if name in what)
    return f"{words[:1].upper()}{words[1:]}. " if words else ""


def _of_chance(results: ComparisonResults) -> str:
    chance = results.chance()
    return "" if chance is None else f"Chance, the score of a model that learned nothing, is {number(chance)}. "


def _costs(results: ComparisonResults) -> dict[str, Callable[[ArmCosts], str]]:
    """Those that are known of some arm."""
    known = [costs_of(arm.records) for arm in results.arms]
    unit, speed = speed_in(known)
    displayed: dict[str, Callable[[ArmCosts], str]] = {
        "parameters": lambda costs: count(costs.parameters),
        "FLOPs": lambda costs: count(costs.flops),
        unit: lambda costs: count(speed(costs)),
        "memory": lambda costs: memory(costs.peak_memory_bytes),
        "energy": lambda costs: energy(costs.joules),
    }
    return {name: of for name, of in displayed.items() if any(of(costs) != "-" for costs in known)}


def _row(results: ComparisonResults, arm: ArmResult, sentences: Iterable[Callable[[ArmCosts], str]]) -> Iterator[Cell]:
    yield ArmName(arm.name)
    values = arm.values
    mean = number(fmean(values)) if values else UNKNOWN
    yield Stacked(mean, between(mean_interval(values, results.alpha, results.measured)))
    verdict = results.verdict_on(arm.name)
    if verdict is None:
        yield UNKNOWN
        yield "baseline" if arm.name == results.baseline else UNKNOWN
    else:
        of_what = OF_WHAT.get(verdict.method, "")
        yield Stacked(signed(verdict.difference), f"{signed_between(verdict.interval)} {of_what}".strip())
        is_odd = verdict.exploratory and not all(one.exploratory for one in results.verdicts)
        yield Badge(verdict.kind, is_odd, verdict.why)
    costs = costs_of(arm.records)
    for figure in (*(of(costs) for of in sentences), str(len(arm.records)), str(len(arm.failures))):
        yield UNKNOWN if figure == "-" else figure


def failed_runs_section(results: ComparisonResults) -> Section | None:
    troubled = [run for run in results.runs if run.status != "finished"]
    if not troubled:
        return None
    columns = [Column("arm"), Column("seed", True), Column("outcome"), Column("reason", wide=True)]
    columns += [Column("step", True), Column("folder")]
    caption = (
        "Runs without a result. A diverged run counts, and ranks last; all others are treated as missing, since the "
        "reason why they ended says nothing about the arm."
    )
    return Section(
        "Failed and missing runs", "troubles", [ReportTable(columns, [_failed_row(run) for run in troubled], caption)]
    )


def _failed_row(run: RunResult) -> list[Cell]:
    record = run.record
    step = UNKNOWN if record is None else str(record.progress.step)
    folder: Cell = UNKNOWN if record is None or record.path is None else Code(_short(record.path))
    return [ArmName(run.arm), str(run.seed), run.status.replace("_", " "), run.reason or UNKNOWN, step, folder]


def _short(path: PurePath) -> str:
    """Return the path without the folders above the study or group, which depend on the machine."""
    return str(PurePath(*path.parts[-3:]))
