"""A contest as findings, which the report renders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headtohead.comparing.contest import Contest
from headtohead.comparing.findings import Findings, Words, findings_of
from headtohead.comparing.task_contest import TaskContest
from headtohead.tracking.metrics import Curve


def findings_from(
    contest: Contest | TaskContest, *, title: str, command: str | None = None, curves: Mapping[str, Curve] | None = None
) -> Findings:
    """All runs of all arms; of several tasks, one for each seed that stands for all of them."""
    whole = contest.overall if isinstance(contest, TaskContest) else contest
    found = findings_of(
        [record for arm in whole.arms for record in arm.records],
        whole.verdicts,
        title=title,
        metric=f"{whole.stage}/{whole.metric}",
        direction=whole.direction,
        baseline=whole.baseline,
        words=Words(order=[arm.name for arm in whole.arms]),
    )
    return replace(
        found,
        margin=whole.margin,
        command=command,
        remarks=(*(f"registered: {v.sentence}" for v in whole.registered), whole.budget.sentence, *whole.remarks),
        tasks=contest.aggregate if isinstance(contest, TaskContest) else None,
        curves=curves or {},
    )
