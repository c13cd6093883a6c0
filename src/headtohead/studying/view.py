"""A study on a terminal: its plan before, its arms and verdicts after."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.comparing.family import families_in
from headtohead.comparing.fitting import Fitted
from headtohead.comparing.lengths import lengths_of
from headtohead.comparing.lengths_table import lengths_table
from headtohead.comparing.table import count, memory
from headtohead.studying.analysed_view import show_aliases
from headtohead.studying.arms_view import ArmsTable, named_table
from headtohead.studying.estimating import ArmEstimate, Estimate
from headtohead.studying.judging import family_asked
from headtohead.studying.planning import Plan
from headtohead.studying.reporting import Report
from headtohead.studying.tuning.tuning import Tuning
from headtohead.tracking.record import RunRecord

_UNKNOWN = "-"
_PLANNED = ("runs", "missing", "parameters", "tokens/run", "FLOPs/run", "time/run", "by")
_APART = (("runs", "missing", "time/run", "by"), ("parameters", "tokens/run", "FLOPs/run"))


def show_plan(plan: Plan, estimate: Estimate, workers: int) -> RenderableType:
    """What would be run, at what cost."""
    study = plan.study
    table = Fitted(_planned_table(estimate, _PLANNED), [_planned_table(estimate, part) for part in _APART])
    told = (Text(study.question, style="bold"), Text(f"hypothesis: {study.hypothesis}"))
    asked = Text(family_asked(study).sentence)
    return Group(*told, table, asked, *_matched(plan), *_aside(plan), Text(_total(estimate, workers)), *_disk(estimate))


def _total(estimate: Estimate, workers: int) -> str:
    """Nobody knows beforehand how long a fit takes, nor of how many FLOPs it is: where nothing else is left to do,
    neither is said."""
    left = [arm for arm in estimate.arms if arm.missing]
    told = f"{estimate.missing} of {estimate.runs} runs to do"
    if not left:
        return told
    timed = [arm for arm in left if arm.seconds is not None]
    flops = f", {count(estimate.flops)} FLOPs" if any(arm.flops is not None for arm in left) else ""
    at_once = max(1, min(workers, estimate.missing))
    where = f"on {at_once} worker{'s' if at_once > 1 else ''}"
    if not timed or any(arm.seconds is None for arm in left if arm.takes_steps):
        return f"{told}{flops}, no time known, {where}"
    fits = ", fits" if len(timed) < len(left) else ""
    calibrated = any(arm.source == "calibration" for arm in estimate.arms)
    added = f", and what starts{fits}, validations and tests add" if calibrated else ""
    return f"{told}{flops}, about {duration(estimate.seconds / at_once)} {where}{added}"


def _matched(plan: Plan) -> Iterator[RenderableType]:
    """What the budget asked of the arms, and what therefore differs."""
    if plan.matching is not None:
        from headtohead.studying.matching.view import show

        yield show(plan.matching)


def _aside(plan: Plan) -> Iterator[Text]:
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


def _disk(estimate: Estimate) -> Iterator[Text]:
    if estimate.missing:
        yield Text(
            f"about {memory(estimate.disk_bytes)} of disk will be taken, and {memory(estimate.passing_bytes)} more by "
            "each run while it trains"
        )


def show_report(report: Report) -> RenderableType:
    """A table of arms, a sentence for each contrast, then what went wrong or was not as expected."""
    study = report.study
    table = ArmsTable(report)
    sentences = [Text(verdict.sentence) for verdict in report.verdicts]
    families = [Text(sentence) for sentence in families_in(report.verdicts)]
    remarks = [Text(remark, style="yellow") for remark in (*report.history.sentences, *report.remarks)]
    told: tuple[RenderableType, ...] = (
        table, *_by_length(report), *sentences, *families, *remarks, *_troubles(report)
    )  # fmt: skip
    return Group(Text(study.question, style="bold"), *told)


def _by_length(report: Report) -> Iterator[RenderableType]:
    """Where runs were tested on longer rows too."""
    arms: dict[str, list[RunRecord]] = {arm: [] for arm in report.study.arms}
    for cell, record in report.records.items():
        if cell.counts and record is not None and record.status == "finished":
            arms[cell.arm].append(record)
    found = lengths_of(arms, report.study.stage_and_name[1], report.study.alpha)
    if found is not None:
        yield lengths_table(found)


def duration(seconds: float) -> str:
    """40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def _planned_table(estimate: Estimate, columns: Sequence[str]) -> Table:
    table = named_table("arm", *columns)
    for arm in estimate.arms:
        told = _planned(arm)
        table.add_row(Text(arm.arm), *(told[name] for name in columns))
    return table


def _planned(arm: ArmEstimate) -> dict[str, str]:
    return {
        "runs": str(arm.runs),
        "missing": str(arm.missing),
        "parameters": count(arm.parameters),
        "tokens/run": count(arm.tokens),
        "FLOPs/run": count(arm.flops),
        "time/run": _UNKNOWN if arm.seconds is None else duration(arm.seconds),
        "by": arm.source or (_UNKNOWN if arm.takes_steps else "one fit"),
    }


def _troubles(report: Report) -> Iterator[Text]:
    """Trials that diverged are no trouble: rates are tried until they do."""
    for run in (*report.failures, *report.undone):
        if run.trial is not None and run.status == "diverged":
            continue
        reason = f": {run.reason}" if run.reason else ""
        where = f" ({os.path.relpath(run.folder)})" if run.status != "missing" else ""
        yield Text(f"{run.words}: {run.status.replace('_', ' ')}{reason}{where}", style="red")
