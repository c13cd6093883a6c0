"""Workers on one study: every run once, whoever fails or dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headtohead.execution.claims import postgres_claims
from headtohead.execution.claims.choice import choose_claims, claims_of
from headtohead.execution.run_attempts import MAX_ATTEMPTS, RunAttempts
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import record_of
from headtohead.execution.worker import Train, Worker
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.studies.planning.study_plan import StudyPlan
from studies.small_studies import plan_without_models, write_run
from waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs fork")
FORK = multiprocessing.get_context("fork")


def trained(run: RunSpec, folder: Path, budget: str | None, threads: int | None) -> None:
    """Leaves a line for every time it was called."""
    with (folder.parent / "calls").open("a") as file:
        file.write(f"{run.id}\n")
    time.sleep(0.05)
    write_run(folder)


def calls(plan: StudyPlan) -> list[str]:
    return sorted((plan.folder / "runs" / "calls").read_text().split())


@pytest.fixture
def claimed_plan(tmp_path: Path, claims_address: str | None) -> Callable[[int], StudyPlan]:
    """Return what plans a study of so many seeds, whose claims are leases or in PostgreSQL."""

    def make(seeds: int) -> StudyPlan:
        plan = plan_without_models(tmp_path, seeds=seeds)
        choose_claims(plan.folder, claims_address)
        return plan

    return make


def is_free(plan: StudyPlan, run: str) -> bool:
    """Return whether another worker could do this run."""
    claim = claims_of(plan.folder).take(run)
    if claim is not None:
        claim.release()
    return claim is not None


def _work(plan: StudyPlan, train: Train, parent: int | None = None) -> None:
    postgres_claims._SUSPECT_SECONDS = 0.5
    (plan.folder / "runs").mkdir(parents=True, exist_ok=True)
    os._exit(0 if Worker(plan, plan.runs, train=train, parent=parent).work() else 1)


def started(plan: StudyPlan, train: Train, parent: int | None = None) -> multiprocessing.Process:
    """A worker in a process of its own, since it takes the signals."""
    process = FORK.Process(target=_work, args=(plan, train, parent))
    process.start()
    return process  # type: ignore[return-value]


def worked(plan: StudyPlan, train: Train) -> int | None:
    process = started(plan, train)
    process.join(PATIENCE)
    return process.exitcode


def status(plan: StudyPlan, run: RunSpec) -> str:
    record = record_of(plan.run_folder(run))
    return "missing" if record is None else record.status


@pytest.mark.process
def test_several_workers_do_every_run_once(claimed_plan: Callable[[int], StudyPlan]) -> None:
    plan = claimed_plan(4)
    workers = [started(plan, trained) for _ in range(3)]
    for worker in workers:
        worker.join(PATIENCE)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert calls(plan) == sorted(run.id for run in plan.runs)


@pytest.mark.process
def test_what_is_done_already_is_not_done_again(tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path, seeds=1)
    write_run(plan.run_folder(plan.runs[0]), "diverged", value=None)
    assert worked(plan, trained) == 0 and calls(plan) == ["b0"]


@pytest.mark.process
def test_half_a_run_is_gone_on_with(tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path, seeds=1)
    write_run(plan.run_folder(plan.runs[0]), "running")
    RunFolder(plan.run_folder(plan.runs[0])).mark_abandoned()
    assert worked(plan, trained) == 0 and calls(plan) == ["a0", "b0"]


@pytest.mark.process
def test_a_process_that_dies_is_tried_again_and_stops_no_other(claimed_plan: Callable[[int], StudyPlan]) -> None:
    plan = claimed_plan(2)

    def deadly(run: RunSpec, folder: Path, budget: str | None, threads: int | None) -> None:
        if run.id == "a0":
            with (folder.parent / "calls").open("a") as file:
                file.write("a0\n")
            os.kill(os.getpid(), signal.SIGKILL)
        trained(run, folder, budget, threads)

    assert worked(plan, deadly) == 0
    assert calls(plan) == ["a0"] * MAX_ATTEMPTS + ["a1", "b0", "b1"]
    record = record_of(plan.run_folder(plan.runs[0]))
    assert record is not None and record.status == "failed" and record.reason is not None
    assert "died 2 times at step 0" in record.reason and "signal 9" in record.reason and "--retry" in record.reason


@pytest.mark.process
def test_a_run_keeps_the_lease_as_long_as_it_lasts(claimed_plan: Callable[[int], StudyPlan]) -> None:
    plan = claimed_plan(1)
    go = plan.folder / "go"

    def waiting(run: RunSpec, folder: Path, budget: str | None, threads: int | None) -> None:
        write_run(folder, "running")
        until(go.exists)
        trained(run, folder, budget, threads)

    first = started(plan, waiting)
    until(lambda: status(plan, plan.runs[0]) == "running")
    second = started(plan, trained)
    until(lambda: status(plan, plan.runs[1]) == "finished")
    assert not is_free(plan, "a0") and second.is_alive(), "it waits for whom it may have to replace"
    go.touch()
    for worker in (first, second):
        worker.join(PATIENCE)
    assert calls(plan) == ["a0", "b0"]


def patient(run: RunSpec, folder: Path, budget: str | None, threads: int | None) -> None:
    """A run that ends on SIGTERM as training does."""

    def end(*_: object) -> None:
        write_run(folder, "interrupted")
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    write_run(folder, "running")
    until(lambda: False, otherwise="it is told to end")


@pytest.mark.process
def test_a_killed_workers_run_ends_and_another_worker_goes_on_with_it(claimed_plan: Callable[[int], StudyPlan]) -> None:
    plan = claimed_plan(1)
    first = started(plan, patient)
    until(lambda: status(plan, plan.runs[0]) == "running")
    first.kill()
    first.join(PATIENCE)
    assert worked(plan, trained) == 0
    assert calls(plan) == ["a0", "b0"] and status(plan, plan.runs[0]) == "finished"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
@pytest.mark.process
def test_a_worker_that_is_asked_to_stop_lets_its_run_end_and_gives_its_claim_back(
    claimed_plan: Callable[[int], StudyPlan], number: int
) -> None:
    plan = claimed_plan(1)
    worker = started(plan, patient)
    until(lambda: status(plan, plan.runs[0]) == "running")
    assert worker.pid is not None
    os.kill(worker.pid, number)
    worker.join(PATIENCE)
    assert worker.exitcode == 1 and status(plan, plan.runs[0]) == "interrupted"
    assert is_free(plan, "a0")


def compiling(run: RunSpec, folder: Path, budget: str | None, threads: int | None) -> None:
    """A run that does not come to the end of what it is at before a scheduler loses patience."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    RunFolder.create_at(folder).write_record(RunRecord(id=folder.name))
    (folder / "process").write_text(f"{os.getpid()}\n")
    until(lambda: False, otherwise="it is killed")


@pytest.mark.process
def test_a_run_is_not_to_blame_that_it_was_killed_soon_after_its_worker_was_asked_to_stop(tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path, seeds=1)
    file = plan.run_folder(plan.runs[0]) / "process"
    worker = started(plan, compiling)
    until(lambda: file.is_file() and file.read_text().endswith("\n"))
    trying = RunAttempts(file.parent)
    assert trying._deaths() == [""], "as long as nobody says otherwise it was lost"
    worker.terminate()
    until(lambda: not trying._deaths(), otherwise="the worker says that it was asked")
    worker.kill()
    os.kill(int(file.read_text()), signal.SIGKILL)
    worker.join(PATIENCE)
    assert worked(plan, trained) == 0 and status(plan, plan.runs[0]) == "finished"


@pytest.mark.process
def test_a_worker_ends_with_the_process_that_wanted_it(tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path, seeds=1)
    worker = started(plan, trained, parent=os.getpid() + 1)
    worker.join(PATIENCE)
    assert worker.exitcode == 1 and status(plan, plan.runs[0]) == "missing"
