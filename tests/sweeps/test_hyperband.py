"""Hyperband: who is ended, who never is, and what an ended run leaves behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import ended_record
from headtohead.execution.worker import Worker
from headtohead.records.early_stopping_marker import end_early, why_ended_early
from headtohead.records.record import Progress
from headtohead.records.run_folder import RunFolder
from headtohead.sweeps.sweep import Hyperband
from headtohead.sweeps.sweep_plan import EarlyStopping, Sweeper
from studies.small_studies import plan_without_models, write_run
from sweeps.small_sweeps import small_sweep, tiny
from waiting import PATIENCE, until

GOOD, FAIR, POOR = [1.0, 0.5, 0.4], [2.0, 1.0, 0.9], [3.0, 2.5, 2.0]


def test_of_three_trials_at_a_bracket_the_best_third_and_who_ties_with_its_edge_go_on() -> None:
    rules, trials = Hyperband((2, 6), eta=3), [GOOD, FAIR, POOR]
    assert rules.against(GOOD, trials, larger_is_better=False) is None
    assert rules.against(FAIR, trials, larger_is_better=False) is None
    assert "bracket 2: 2 is not among the best 1/3 of 3 trials" in (
        rules.against(POOR, trials, larger_is_better=False) or ""
    )
    assert rules.against(POOR, trials, larger_is_better=True) is None
    assert Hyperband((2,), strict=True).against(GOOD, trials, larger_is_better=True) is not None


def test_before_the_first_bracket_nobody_is_ended_and_alone_nobody_ever_is() -> None:
    rules = Hyperband((2, 3))
    assert rules.against(POOR[:1], [GOOD, POOR[:1]], larger_is_better=False) is None
    assert rules.against(POOR, [POOR], larger_is_better=False) is None


def test_strictly_a_trial_is_judged_by_its_value_at_the_bracket_alone() -> None:
    late = [5.0, 5.0, 0.1]
    trials = [GOOD, FAIR, FAIR, late]
    assert Hyperband((2,), strict=False).against(late, trials, larger_is_better=False) is None
    assert Hyperband((2,), strict=True).against(late, trials, larger_is_better=False) is not None


def test_a_judge_reads_what_all_trials_have_logged_and_spares_one_at_its_last_step(tmp_path: Path) -> None:
    rules = {"type": "hyperband", "min_iter": 2}
    sweeper = Sweeper(small_sweep(*tiny(tmp_path), early_terminate=rules))
    folders = [sweeper.plan.run_folder(spec) for spec in sweeper.plan.runs]
    for folder, values in zip(folders, (GOOD, POOR, POOR), strict=False):
        run = RunFolder.create_at(folder)
        for position, value in enumerate(values):
            run.log(Progress(step=position + 1), {"validation/loss": value})
    judge, poor = EarlyStopping(sweeper), sweeper.plan.runs[1]
    assert judge(sweeper.plan.runs[0], folders[0]) is None
    assert judge(poor, folders[1]) is None  # of three the second best may go on
    run = RunFolder.create_at(folders[3])
    for position in range(2):
        run.log(Progress(step=position + 1), {"validation/loss": FAIR[position]})
    assert judge(poor, folders[1]) is None  # nothing new of its own
    RunFolder(folders[1]).log(Progress(step=3), {"train/loss": 1.0})
    assert "Hyperband, bracket 2" in (judge(poor, folders[1]) or "")
    RunFolder(folders[1]).log(Progress(step=4), {"validation/loss": 9.0})
    assert judge(poor, folders[1]) is None  # at its last step


def test_nobody_goes_on_with_a_run_that_was_ended_early(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(folder, "interrupted", reason="stopped by SIGTERM")
    assert ended_record(folder) is None
    end_early(folder, "Hyperband, bracket 3")
    assert ended_record(folder) is not None


def until_signalled_to_end(spec: RunSpec, folder: Path, budget: str | None, threads: int | None) -> None:
    signal.signal(signal.SIGTERM, lambda *_: (write_run(folder, "interrupted"), os._exit(0)))
    write_run(folder, "running")
    until(lambda: False, otherwise="it is told to end")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs fork")
@pytest.mark.process
def test_a_worker_ends_the_run_at_hand_once_and_goes_on_with_the_next(tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path, seeds=1)

    def work() -> None:
        (plan.folder / "runs").mkdir(parents=True)
        worker = Worker(
            plan,
            plan.runs,
            train=until_signalled_to_end,
            stops=lambda _, folder: "others do better" if (folder / "record.json").exists() else None,
        )
        os._exit(0 if worker.work() else 1)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert [why_ended_early(plan.run_folder(spec)) for spec in plan.runs] == ["others do better"] * 2
