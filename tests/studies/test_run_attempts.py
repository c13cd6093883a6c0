"""The tries of a run are counted in its folder, whichever workers make them, and start anew where it got further."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.execution.claims.choice import claims_of
from headtohead.execution.run_attempts import MAX_ATTEMPTS, MOST_LOST
from headtohead.execution.run_queue import RunQueue
from headtohead.execution.single_run import record_of
from headtohead.files.leases import Leases
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.studies.planning.study_plan import StudyPlan
from studies.small_studies import plan_without_models

KILLED, LOST, STOPPED, FURTHER = "signal 9", "lost", "stopped", "further"
"""The ends of a try: its process is killed, its worker too, both are asked to stop, or it gets further first and
is then lost."""
EARLY, ALONE = "early", "alone"
"""Its process is killed before it writes anything, or its worker is, and the process saves a checkpoint and ends."""
REQUESTED, HURRIED = "signal 15", "hurried"
"""Its process is asked to end before it writes anything, or its worker is, and both are killed before it can."""
PLAIN = [KILLED] * MAX_ATTEMPTS


@pytest.fixture
def plan(tmp_path: Path) -> StudyPlan:
    return plan_without_models(tmp_path, seeds=1)


def tried(plan: StudyPlan, events: list[str]) -> int:
    """Let a worker of its own make each try of the first run, and return how many tries there were."""
    made = 0
    for event in events:
        queue = RunQueue(plan, plan.runs[:1], claims_of(plan.folder))
        if (job := next((job for runs in queue.by_devices() if (job := queue.take(runs))), None)) is None:
            break
        if not queue.begin(job):
            break
        made += 1
        if event not in (EARLY, REQUESTED):
            written(job.folder, event)
        if event == HURRIED:
            queue.note_stop(job)
        if event in (KILLED, EARLY, STOPPED, REQUESTED):
            queue.end(job, death=None if event == STOPPED else event)
        else:
            job.claim.release()
    return made


def written(folder: Path, event: str) -> None:
    """Write what the run's process leaves behind: its record, whose step grows where it got further."""
    known = record_of(folder)
    step = 0 if known is None else known.progress.step
    with RunFolder(folder).claimed():
        progress = Progress(step=step + (10 if event == FURTHER else 0))
        status = "interrupted" if event in (STOPPED, ALONE) else "running"
        RunFolder(folder).write_record(RunRecord(id=folder.name, status=status, progress=progress))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("events", "made"),
    [
        ([KILLED] * 9, MAX_ATTEMPTS),
        ([LOST] * 9, MOST_LOST),
        ([LOST, KILLED, LOST, KILLED, LOST], 4),
        ([FURTHER] * 9, 9),
        ([STOPPED] * 9, 9),
        ([KILLED, FURTHER] * 4 + PLAIN, 10),
        ([KILLED, STOPPED] * 4 + PLAIN, 10),
        ([EARLY] * 9, MAX_ATTEMPTS),
        ([STOPPED] + [EARLY] * 8, 1 + MAX_ATTEMPTS),
        ([ALONE] * 9, 9),
        ([REQUESTED] * 9, MOST_LOST),
        ([REQUESTED, KILLED, REQUESTED, KILLED, LOST], 4),
        ([HURRIED] * 9, 9),
        ([HURRIED] * 7 + PLAIN, 9),
        ([ALONE] * 7 + PLAIN, 9),
    ],
)
def test_tries_are_those_of_the_run_and_not_of_a_worker(plan: StudyPlan, events: list[str], made: int) -> None:
    assert tried(plan, events) == made
    record = record_of(plan.run_folder(plan.runs[0]))
    assert record is not None and (record.status == "failed") == (made < len(events) or events[-2:] == PLAIN)


def test_a_damaged_count_is_no_reason_to_give_up(plan: StudyPlan) -> None:
    assert tried(plan, [KILLED]) == 1
    for file in (plan.run_folder(plan.runs[0]) / "leases").glob("try.*"):
        file.write_text("-1e400 NaN")
    assert tried(plan, [KILLED, KILLED]) == 2
    assert Leases(plan.run_folder(plan.runs[0]) / "leases").last("try") == 3
