"""All that a study found, as every report reads it: the runs, their verdicts, and what led to them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from headtohead.comparing.findings import Findings, Found, Words, findings_of
from headtohead.studying.analysing import effects_in, ranking_in, scaling_in
from headtohead.studying.cells import Cell
from headtohead.studying.planning import Plan
from headtohead.studying.reporting import Report
from headtohead.studying.tuning.summing import summary_of
from headtohead.tracking.record import RunRecord

_PARTS = ("matching", "tuning", "effects", "left_out", "scaling", "ranking", "lengths")


def findings_from(plan: Plan, report: Report, *, command: str | None = None, config_dir: str | None = None) -> Findings:
    """The same verdicts as the report's, with all that stands behind them."""
    study = plan.study
    found = findings_of(
        [record for cell in plan.contest if (record := report.records[cell]) is not None],
        report.verdicts,
        title=study.name,
        metric=study.metric,
        direction=study.direction,
        baseline=study.baseline,
        words=Words(
            order=list(study.arms),
            overrides={arm: plan.what_makes(arm) for arm in study.arms},
            commands={cell.id: command_of(cell, report.records[cell], config_dir) for cell in plan.contest},
        ),
        undone=[
            Found(cell.arm, cell.seed, "missing", command=command_of(cell, None, config_dir))
            for cell in plan.contest
            if report.records[cell] is None
        ],
    )
    tuning = summary_of(plan.tunings)
    words = study.tuning if isinstance(study.tuning, str) else None if tuning is None else tuning.sentence
    return replace(
        found,
        question=study.question,
        hypothesis=study.hypothesis,
        tuning_words=words,
        margin=study.margin,
        alpha=study.alpha,
        budget=study.budget_name,
        command=command,
        resumes=True,
        remarks=report.remarks,
        history=report.history.sentences,
        matching=plan.matching.to_dict() if plan.matching is not None else None,
        tuning=tuning,
        effects=effects_in(plan, report),
        left_out=plan.left_out,
        scaling=scaling_in(plan, report),
        ranking=ranking_in(plan, report),
    )


def command_of(cell: Cell, record: RunRecord | None, config_dir: str | None) -> str:
    """Makes the run again, on as many threads: sums of another number of parts round otherwise."""
    threads = record.config.get("trainer", {}).get("threads") if record is not None else None
    also = [f"trainer.threads={threads}"] if threads and not cell.config["trainer"].get("threads") else []
    where = ["--config-dir", config_dir] if config_dir else []
    return f"h2h train {shlex.join([*cell.overrides, *also, *where])}"


def told_of(report: Report, findings: Findings) -> dict[str, Any]:
    """For verdict.json: the report, and the parts that not every study has."""
    parts = findings.to_dict()
    return {**report.to_dict(), **{name: parts[name] for name in _PARTS if parts[name]}}
