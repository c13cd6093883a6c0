"""A study on a terminal: its plan before, its arms and verdicts after."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from headtohead.comparison.analyses.length_curves import lengths_of
from headtohead.comparison.arms import ArmCosts, speed_in
from headtohead.comparison.contrasts import Verdict
from headtohead.comparison.tables.results_table import lengths_table
from headtohead.comparison.tables.run_table import FittedTable, chance_text, count, energy, memory, number
from headtohead.comparison.verdicts.contrast_family import families_in
from headtohead.comparison.verdicts.verdict_text import OF_WHAT
from headtohead.durations import duration
from headtohead.execution.tuning import Tuning
from headtohead.records.record import RunRecord
from headtohead.studies.definition.study import Study
from headtohead.studies.planning.cost_estimate import ArmEstimate, CostEstimate
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.planning.study_progress import fewest_rounds
from headtohead.studies.results.analyses_tables import show_aliases
from headtohead.studies.results.study_report import ArmSummary, StudyReport
from headtohead.studies.results.study_verdicts import requested_family

_UNKNOWN = "-"
_PLANNED = ("runs", "missing", "parameters", "tokens/run", "FLOPs/run", "time/run", "by")
_APART = (("runs", "missing", "time/run", "by"), ("parameters", "tokens/run", "FLOPs/run"))


def show_plan(plan: StudyPlan, estimate: CostEstimate, workers: int) -> RenderableType:
    """Show what would be run, at what cost."""
    study = plan.study
    table = FittedTable(_planned_table(estimate, _PLANNED), [_planned_table(estimate, part) for part in _APART])
    lines = (Text(study.question, style="bold"), Text(f"hypothesis: {study.hypothesis}"))
    family = Text(requested_family(study).sentence)
    return Group(
        *lines,
        table,
        family,
        *_matched(plan),
        *_aside(plan),
        *map(Text, totals(study, estimate, workers)),
        *_disk(estimate),
    )


def totals(study: Study, estimate: CostEstimate, workers: int) -> Iterator[str]:
    """Yield how many runs are left and what they take; a study that adds seeds until it is decided has a best and a
    worst case."""
    total = total_words(estimate, workers)
    if study.rounds is None or not estimate.missing:
        yield total
        return
    fewest, most = fewest_rounds(study), study.rounds.most
    yield f"at worst, all {most} seeds for every arm: {total}"
    if fewest is not None and estimate.fewest_missing < estimate.missing:
        at_once = max(1, min(workers, estimate.fewest_missing))
        time = f", about {duration(estimate.fewest_seconds / at_once)}" if estimate.fewest_seconds else ""
        yield f"at best, all decided after {fewest} seeds: {estimate.fewest_missing} runs to do{time}"


def total_words(estimate: CostEstimate, workers: int) -> str:
    """Return how many runs are left, and their FLOPs and time. Nobody knows beforehand how long a fit takes, nor of how
    many FLOPs it is: where nothing else is left to do, neither is shown."""
    left = [arm for arm in estimate.arms if arm.missing]
    text = f"{estimate.missing} of {estimate.runs} runs to do"
    if not left:
        return text
    timed = [arm for arm in left if arm.seconds is not None]
    flops = f", {count(estimate.flops)} FLOPs" if any(arm.flops is not None for arm in left) else ""
    at_once = max(1, min(workers, estimate.missing))
    where = f"on {at_once} worker{'s' if at_once > 1 else ''}"
    if not timed or any(arm.seconds is None for arm in left if arm.trained_by_steps):
        return f"{text}{flops}, no time known, {where}"
    fits = ", fits" if len(timed) < len(left) else ""
    calibrated = any(arm.source == "calibration" for arm in estimate.arms)
    added = f", plus starts{fits}, validations and tests" if calibrated else ""
    return f"{text}{flops}, about {duration(estimate.seconds / at_once)} {where}{added}"


def _matched(plan: StudyPlan) -> Iterator[RenderableType]:
    """Show what the budget required of the arms, and what differs as a consequence."""
    if plan.matching is not None:
        from headtohead.studies.matching.solver import show_matching

        yield show_matching(plan.matching)


def _aside(plan: StudyPlan) -> Iterator[Text]:
    """Runs that no verdict rests on, and combinations that are none."""
    study = plan.study
    if isinstance(study.tuning, Tuning):
        trials = sum(plan.num_trials(arm) for arm in study.arms)
        yield Text(f"{trials} of the runs are a tuning ({study.tuning.words}); each arm's best is run on other seeds")
    if len(study.shares) > 1:
        yield Text(f"each arm and seed runs at {', '.join(f'{share:.0%}' for share in study.shares)} of the budget")
    for arm, reason in plan.left_out:
        yield Text(f"left out: {arm}: {reason}", style="yellow")
    yield from show_aliases(plan)


def _disk(estimate: CostEstimate) -> Iterator[Text]:
    if estimate.missing:
        yield Text(
            f"about {memory(estimate.disk_bytes)} of disk will be used, and {memory(estimate.passing_bytes)} more by "
            "each run while it trains"
        )


def show_report(report: StudyReport) -> RenderableType:
    """Return a table of arms, a sentence for each contrast, then what went wrong or was not as expected."""
    study = report.study
    table = ArmsTable(report)
    sentences = [Text(verdict.sentence) for verdict in report.verdicts]
    families = [Text(sentence) for sentence in families_in(report.verdicts)]
    remarks = [Text(remark, style="yellow") for remark in (*report.history.sentences, *report.remarks)]
    parts: tuple[RenderableType, ...] = (
        table, *_by_length(report), *sentences, *families, *remarks, *_troubles(report)
    )  # fmt: skip
    return Group(Text(study.question, style="bold"), *parts)


def _by_length(report: StudyReport) -> Iterator[RenderableType]:
    """Show the results by length if runs were tested on longer rows too."""
    arms: dict[str, list[RunRecord]] = {arm: [] for arm in report.study.arms}
    for run, record in report.records.items():
        if run.counts and record is not None and record.status == "finished":
            arms[run.arm].append(record)
    lengths = lengths_of(arms, report.study.stage_and_name[1], report.study.alpha)
    if lengths is not None:
        yield lengths_table(lengths)


def _planned_table(estimate: CostEstimate, columns: Sequence[str]) -> Table:
    table = named_table("arm", *columns)
    for arm in estimate.arms:
        runs = _planned(arm)
        table.add_row(Text(arm.arm), *(runs[name] for name in columns))
    return table


def _planned(arm: ArmEstimate) -> dict[str, str]:
    return {
        "runs": str(arm.runs),
        "missing": str(arm.missing),
        "parameters": count(arm.parameters),
        "tokens/run": count(arm.tokens or None),
        "FLOPs/run": count(arm.flops),
        "time/run": _UNKNOWN if arm.seconds is None else duration(arm.seconds),
        "by": arm.source or (_UNKNOWN if arm.trained_by_steps else "one fit"),
    }


def _troubles(report: StudyReport) -> Iterator[Text]:
    """Trials that diverged do no harm: rates are tried until they do."""
    for run in (*report.failures, *report.undone):
        if run.trial is not None and run.status == "diverged":
            continue
        reason = f": {run.reason}" if run.reason else ""
        where = f" ({os.path.relpath(run.folder)})" if run.status != "missing" else ""
        yield Text(f"{run.words}: {run.status.replace('_', ' ')}{reason}{where}", style="red")


_STYLES = {"better": "green", "worse": "red", "equivalent": "cyan", "undecided": "yellow"}
_RESULTS = ("difference", "verdict", "seeds", "failures")
_WRAPPED = ("difference", "verdict")
"""Columns that break into lines before names have no room left."""
_WIDE = 10_000


class ArmsTable:
    """One line for each arm."""

    def __init__(self, report: StudyReport) -> None:
        self._report = report
        unit, self._speed = speed_in(arm.costs for arm in report.arms)
        self._has_energy = any(arm.costs.joules is not None for arm in report.arms)
        self._costs = ("parameters", "FLOPs", unit, "memory", *(("energy",) if self._has_energy else ()))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        results, costs = self._columns(), self._costs
        whole = self._table((*results[:3], *costs, *results[3:]))
        width = Measurement.get(console, options.update(max_width=_WIDE), whole).maximum
        yield from (whole,) if width <= options.max_width else (self._table(results), self._table(costs))

    def _columns(self) -> tuple[str, ...]:
        arrow = "↑" if self._report.study.direction == "max" else "↓"
        return (f"{self._report.study.metric} {arrow}", *_RESULTS)

    def _table(self, columns: tuple[str, ...]) -> Table:
        table = named_table("arm", *columns)
        if columns[0] == self._columns()[0]:
            table.caption, table.caption_justify = chance_text(self._report.chance), "left"
        for arm in self._report.arms:
            runs = dict(
                zip((*self._columns(), *self._costs), (*self._results(arm), *self._spent(arm.costs)), strict=True)
            )
            table.add_row(Text(arm.arm), *(runs[name] for name in columns))
        return table

    def _results(self, arm: ArmSummary) -> tuple[str | Text, ...]:
        verdict = self._report.verdict_on(arm.arm)
        counted = (_seeds(arm, verdict), str(arm.failures))
        return (_mean(arm), *_against(self._report.study.baseline, arm, verdict), *counted)

    def _spent(self, costs: ArmCosts) -> list[str]:
        figures = (costs.parameters, costs.flops, self._speed(costs))
        drawn = [energy(costs.joules)] if self._has_energy else []
        return [*map(count, figures), memory(costs.peak_memory_bytes), *drawn]


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


def _seeds(arm: ArmSummary, verdict: Verdict | None) -> str:
    """Show, where seeds are added until it is decided, those of the contrast, and why there are no more."""
    evidence = None if verdict is None else verdict.seed_evidence
    return str(arm.finished) if evidence is None else f"{evidence.stop.num_seeds} ({evidence.stop.reason})"


def _mean(arm: ArmSummary) -> str:
    return f"{number(arm.mean)}{_interval(arm.interval)}"


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f" [{number(bounds[0])}, {number(bounds[1])}]"


def _against(baseline: str, arm: ArmSummary, verdict: Verdict | None) -> tuple[str | Text, str | Text]:
    if arm.arm == baseline:
        return "baseline", _UNKNOWN
    if verdict is None:
        return _UNKNOWN, _UNKNOWN
    answer = verdict.answer + (" (exploratory)" if verdict.exploratory else "")
    return _apart(verdict), Text(answer, style=_STYLES[verdict.kind])


def _apart(verdict: Verdict) -> str:
    """Show the difference with its interval, and name its statistic if that is not the metric's mean."""
    if verdict.difference is None:
        return _UNKNOWN
    of_what = OF_WHAT.get(verdict.method, "")
    return f"{verdict.difference + 0.0:+.3g}{_interval(verdict.interval)} {of_what}".rstrip()
