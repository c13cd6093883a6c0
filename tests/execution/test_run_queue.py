"""A claim costs a worker as much whether ten runs are done or thousands, and what is left is offered to it in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headtohead.execution.claims.folder_claims import FolderClaims
from headtohead.execution.claims.run_claims import ClaimedRun
from headtohead.execution.run_queue import RunQueue
from headtohead.files import leases
from headtohead.files.lease_files import LeaseFiles
from headtohead.files.leases import Leases
from headtohead.records.run_folder import RunFolder
from studies.small_studies import plan_without_models


class CountedFiles(LeaseFiles):
    """Files of leases in memory, with the number of names that were read of one folder and of files opened there."""

    def __init__(self, folder: Path) -> None:
        self._counted = folder
        self._files: defaultdict[Path, dict[str, str]] = defaultdict(dict)
        self.read_names = self.opened = 0

    def names(self, folder: Path) -> list[str]:
        self.read_names += len(self._files[folder]) * (folder == self._counted)
        return list(self._files[folder])

    def exists(self, path: Path) -> bool:
        return path.name in self._files[path.parent]

    def create(self, path: Path, text: str) -> bool:
        self.opened += path.parent == self._counted
        is_new = not self.exists(path)
        self._files[path.parent].setdefault(path.name, text)
        return is_new

    def read(self, path: Path) -> tuple[str, int]:
        self.opened += path.parent == self._counted
        if not self.exists(path):
            raise FileNotFoundError(path)
        return self._files[path.parent][path.name], 0

    def write(self, path: Path, text: str) -> None:
        self._files[path.parent][path.name] = text


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
