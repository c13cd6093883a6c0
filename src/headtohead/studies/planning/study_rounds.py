"""The rounds of a study that adds seeds until it is decided, by the records of its runs alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headtohead.comparison.comparison_results import value_of
from headtohead.comparison.contrasts import Registration
from headtohead.comparison.verdicts.seed_rounds import EndedRun, RoundProgress, fewest_seeds, follow_rounds
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import ended_record
from headtohead.studies.definition.study import Study

RunAt = Callable[[str, int], RunSpec | None]
"""The run of an arm and a seed that verdicts rest on; None while nobody knows what it is."""


def rounds_of(study: Study, run_at: RunAt, folder: Path) -> RoundProgress | None:
    """Return how far they have come; None where the number of seeds was fixed."""
    if study.rounds is None:
        return None

    def ended(arm: str, index: int) -> EndedRun | None:
        run = run_at(arm, study.seeds[index])
        record = None if run is None else ended_record(folder / "runs" / run.id)
        if record is None:
            return None
        return EndedRun(value_of(record, study.metric), counts=record.status in ("finished", "diverged"))

    registration = Registration(
        direction=study.direction,
        margin=study.margin,
        alpha=study.alpha,
        paired=study.is_paired,
        solved_at=study.solved_at,
    )
    return follow_rounds(study.rounds, list(study.arms), study.contrasts, registration, ended)


def fewest_rounds(study: Study) -> int | None:
    """Return the seeds of every arm with which all contrasts can be decided at the earliest; None where solve rates
    decide, and where the number of seeds was fixed."""
    if study.rounds is None or study.solved_at is not None:
        return None
    return fewest_seeds(study.alpha / max(1, len(study.contrasts)), study.rounds.start, study.rounds.most)
