"""A claim costs a worker as much whether ten runs are done or thousands, and what is left is offered to it in order."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from execution.counted_files import CountedFiles
from headtohead.execution.claims.choice import choose_claims, claims_of
from headtohead.execution.claims.folder_claims import FolderClaims
from headtohead.execution.claims.run_claims import ClaimedRun
from headtohead.execution.monitor import clear_failed
from headtohead.execution.run_queue import RunQueue
from headtohead.files import leases
from headtohead.files.leases import Leases
from headtohead.records.run_folder import RunFolder
from headtohead.studies.planning.study_plan import StudyPlan
from studies.small_studies import plan_without_models, write_run


class CountedRuns(Collection[str]):
    """Runs that are offered, with the number that were looked at."""

    looked_at = 0

    def __init__(self, runs: Collection[str]) -> None:
        self._runs = runs

    def __contains__(self, run: object) -> bool:
        return run in self._runs

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[str]:
        for run in self._runs:
            CountedRuns.looked_at += 1
            yield run


class CountedClaims(FolderClaims):
    def take_next(self, runs: Collection[str], *, is_idle: bool) -> ClaimedRun | None:
        return super().take_next(CountedRuns(runs), is_idle=is_idle)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("seeds", [30, 150])
def test_a_claim_costs_no_more_the_more_runs_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: int, workers: int
) -> None:
    plan, done = plan_without_models(tmp_path, seeds=seeds), set[Path]()
    files = CountedFiles(plan.folder / "leases")
    monkeypatch.setattr(leases, "system", files)
    monkeypatch.setattr(CountedRuns, "looked_at", 0)
    queues = [
        RunQueue(plan, plan.runs, CountedClaims(Leases(plan.folder / "leases"), seed=one), is_done=done.__contains__)
        for one in range(workers)
    ]
    order: list[str] = []
    while any(queue.has_work for queue in queues):
        for queue in queues:
            job = next((job for runs in queue.by_devices() if (job := queue.take(runs))), None)
            if job is not None:
                queue.begin(job)
                done.add(job.folder)
                queue.end(job)
                order.append(job.run.id)
    number = len(plan.runs)
    assert sorted(order) == sorted(run.id for run in plan.runs), "every run once"
    assert files.opened < 16 * number
    assert files.read_names < 128 * files.opened and CountedRuns.looked_at < 16 * number
    if workers == 1:
        assert order == [run.id for run in plan.runs], "in the order of the plan"


def test_a_run_that_is_still_written_here_holds_up_no_other(tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path, seeds=2)
    queue = RunQueue(plan, plan.runs, FolderClaims(Leases(plan.folder / "leases")))
    (runs,) = queue.by_devices()
    written = RunFolder.create_at(plan.run_folder(plan.runs[0]))
    begun = []
    while (job := queue.take(runs)) is not None:
        if queue.begin(job):
            begun.append(job.run)
    assert begun == list(plan.runs[1:])
    written.release()
    job = queue.take(runs, is_idle=True)
    assert job is not None and job.run == plan.runs[0] and queue.begin(job)


def test_a_group_that_others_have_done_meanwhile_is_passed_over(tmp_path: Path) -> None:
    plan, done = plan_without_models(tmp_path, seeds=2), set[Path]()
    wide = {"max_steps": 4, "devices": 2}
    runs = [replace(run, config={**run.config, "trainer": wide}) if run.seed else run for run in plan.runs]

    def queue() -> RunQueue:
        claims = FolderClaims(Leases(plan.folder / "leases"))
        return RunQueue(plan, runs, claims, is_done=done.__contains__)

    slow, quick = queue(), queue()
    while (job := next((job for group in quick.by_devices() if (job := quick.take(group))), None)) is not None:
        quick.begin(job)
        done.add(job.folder)
        quick.end(job)
    sizes = []
    for group in slow.by_devices():
        sizes.append(len(group))
        assert slow.take(group) is None
    assert sizes == [2] and not slow.has_work


def test_a_run_whose_folder_was_removed_is_offered_again(tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path, seeds=2)
    done = {plan.run_folder(run) for run in plan.runs}

    def queue() -> RunQueue:
        return RunQueue(plan, plan.runs, FolderClaims(Leases(plan.folder / "leases")), is_done=done.__contains__)

    first = queue()
    while first.has_work:
        assert all(first.take(runs) is None for runs in first.by_devices()), "records say that all are done"
    removed = plan.runs[1]
    for run in plan.runs:
        plan.run_folder(run).mkdir(parents=True)
    plan.run_folder(removed).rmdir()
    done.remove(plan.run_folder(removed))
    again = queue()
    assert [list(runs) for runs in again.by_devices()] == [[removed.id]]
    job = again.take(next(again.by_devices()))
    assert job is not None and job.run == removed


def queue_of(plan: StudyPlan, done: set[Path]) -> RunQueue:
    """Return a queue for which these folders are done."""
    return RunQueue(plan, plan.runs, claims_of(plan.folder), is_done=done.__contains__)


def plan_with_a_removed_run(folder: Path, claims_address: str | None) -> tuple[StudyPlan, set[Path]]:
    """Return a plan whose claims say that all runs are done, while the folder of the second is gone, and what is done
    by its records."""
    plan = plan_without_models(folder, seeds=1)
    choose_claims(plan.folder, claims_address)
    done = {plan.run_folder(run) for run in plan.runs}
    first = queue_of(plan, done)
    while first.has_work:
        assert all(first.take(runs) is None for runs in first.by_devices()), "records say that all are done"
    plan.run_folder(plan.runs[0]).mkdir(parents=True)
    done.remove(plan.run_folder(plan.runs[1]))
    return plan, done


@pytest.mark.process
@pytest.mark.parametrize("is_finished", [False, True])
def test_a_removed_run_that_another_command_offers_again_is_waited_for(
    tmp_path: Path, claims_address: str | None, is_finished: bool
) -> None:
    plan, done = plan_with_a_removed_run(tmp_path, claims_address)
    removed = plan.runs[1]
    other = claims_of(plan.folder)
    claim = other.take(removed.id)
    assert claim is not None
    second = queue_of(plan, done)
    for _ in range(3):
        assert [list(runs) for runs in second.by_devices()] == [[removed.id]], "no record says that it is done"
        assert all(second.take(runs, is_idle=True) is None for runs in second.by_devices()), "another has it"
    other.forget(removed.id)
    if is_finished:
        done.add(plan.run_folder(removed))
    claim.release(is_done=is_finished)
    jobs = [second.take(runs, is_idle=True) for _ in range(3) for runs in second.by_devices()]
    assert [job.run for job in jobs if job] == ([] if is_finished else [removed])
    assert second.has_work != is_finished


@pytest.mark.process
def test_a_removed_run_whose_worker_died_before_it_offered_it_is_offered_by_the_next(
    tmp_path: Path, claims_address: str | None
) -> None:
    plan, done = plan_with_a_removed_run(tmp_path, claims_address)
    removed = plan.runs[1]
    claim = claims_of(plan.folder).take(removed.id)
    second = queue_of(plan, done)
    assert claim is not None
    claim.release()  # as if its process were gone, which has not said yet that the run is not done
    jobs = [second.take(runs, is_idle=True) for _ in range(3) for runs in second.by_devices()]
    assert [job.run for job in jobs if job] == [removed]


@pytest.mark.parametrize("number", [10, 300])
def test_failed_runs_are_offered_again_by_one_look_at_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Offering runs again opens files by the number of those that failed, and lists names once."""
    plan = plan_without_models(tmp_path, seeds=number)
    for run in plan.runs[: (failed := 10)]:
        write_run(plan.run_folder(run), "failed")
    files = CountedFiles(plan.folder / "leases")
    monkeypatch.setattr(leases, "system", files)
    before = FolderClaims(Leases(plan.folder / "leases"))
    for run in plan.runs:
        claim = before.take(run.id)
        assert claim is not None
        claim.release(is_done=True)
    files.read_names = files.opened = 0
    clear_failed(plan, plan.runs)
    assert not any(plan.run_folder(run).exists() for run in plan.runs[:failed])
    assert files.opened <= 4 * failed and files.read_names <= 2 * len(plan.runs)
    done = FolderClaims(Leases(plan.folder / "leases")).look()
    assert done == {run.id for run in plan.runs[failed:]}, "the others are not offered"
