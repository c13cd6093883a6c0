"""Studies whose later runs follow from how earlier ones end."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from headtohead.config.errors import ConfigurationError
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import record_of
from headtohead.execution.worker import Train, Worker
from headtohead.records.record import Status
from headtohead.studies.planning.shards import shard_of
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.studies.planning.study_runs import steps_of
from headtohead.studies.results.study_report import report_of
from studies.small_studies import TINY, small_study, write_run
from waiting import PATIENCE

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs fork")
FORK = multiprocessing.get_context("fork")
RATES = [0.1, 0.001, 0.01]
TUNING = {"search": "grid", "trials": 3, "space": {"optimizer.lr": RATES}}


def planner(folder: Path, **changes: Any) -> StudyPlanner:
    provided = {"base": [*TINY, f"output_dir={folder}"], "seeds": 2, "tuning": TUNING, **changes}
    return StudyPlanner(small_study(**provided))


def ended(spec: RunSpec, folder: Path, status: Status = "finished") -> None:
    """Write a record as if the run had been trained: 0.001 is best for a, 0.01 for b, and 0.1 diverges."""
    rate = spec.config["optimizer"]["lr"]
    loss = abs(math.log10(rate) + (3 if spec.arm == "a" else 2)) + 0.01 * spec.seed
    metrics = {"validation": {"loss": loss}, "test": {}}
    write_run(folder, "diverged" if rate == 0.1 else status, loss, metrics=metrics, place=spec.place)


def trained(spec: RunSpec, folder: Path, budget: str | None, threads: int | None) -> None:
    with (folder.parent / "calls").open("a") as file:
        file.write(f"{spec.id}\n")
    time.sleep(0.02)
    ended(spec, folder)


def _work(planned: StudyPlanner, train: Train) -> None:
    plan = planned.plan()
    (plan.folder / "runs").mkdir(parents=True, exist_ok=True)

    def again() -> tuple[StudyPlan, tuple[RunSpec, ...]]:
        plan = planned.plan()
        return plan, plan.runs

    os._exit(0 if Worker(plan, plan.runs, train=train, again=again).work() else 1)


def started(planned: StudyPlanner, train: Train = trained) -> Any:
    process = FORK.Process(target=_work, args=(planned, train))
    process.start()
    return process


def rates(plan: StudyPlan) -> dict[str, set[float]]:
    return {arm: {spec.config["optimizer"]["lr"] for spec in plan.family if spec.arm == arm} for arm in plan.study.arms}


def test_trials_come_first_and_what_they_choose_is_run_on_the_seeds_of_the_study(tmp_path: Path) -> None:
    planned = planner(tmp_path)
    plan = planned.plan()
    assert plan.is_open and plan.num_runs == 10 and not plan.family
    assert [(spec.name, spec.config["seed"], spec.config["optimizer"]["lr"]) for spec in plan.runs[:3]] == [
        ("a-t0-s1000", 1000, 0.1), ("b-t0-s1000", 1000, 0.1), ("a-t1-s1000", 1000, 0.001),
    ]  # fmt: skip
    assert plan.runs[2].place.trial == 1 and plan.runs[2].config["trainer"]["keep_checkpoints"] == "none"
    for spec in plan.of_arm("a"):
        ended(spec, plan.run_folder(spec))
    half = planned.plan()
    assert half.is_open and [spec.name for spec in half.family] == ["a-s0", "a-s1"]
    for spec in plan.of_arm("b"):
        ended(spec, plan.run_folder(spec))
    whole = planned.plan()
    assert not whole.is_open and len(whole.runs) == whole.num_runs
    assert rates(whole) == {"a": {0.001}, "b": {0.01}}


def test_trials_are_in_no_verdict(tmp_path: Path) -> None:
    planned = planner(tmp_path)
    for _ in range(2):
        plan = planned.plan()
        for spec in plan.runs:
            ended(spec, plan.run_folder(spec))
    report = report_of(planned.plan())
    assert [arm.finished for arm in report.arms] == [2, 2] and report.verdicts[0].seeds == (0, 1)
    assert report.complete and [run.words for run in report.failures] == [
        "a, trial 0, seed 1000",
        "b, trial 0, seed 1000",
    ]


def test_an_arm_none_of_whose_trials_finishes_keeps_its_own_settings(tmp_path: Path) -> None:
    planned = planner(tmp_path, base=[*TINY, f"output_dir={tmp_path}", "optimizer.lr=0.02"])
    plan = planned.plan()
    for spec in plan.runs:
        ended(spec, plan.run_folder(spec), "failed" if spec.arm == "b" else "finished")
    assert rates(planned.plan()) == {"a": {0.001}, "b": {0.02}}


@pytest.mark.process
def test_two_workers_find_the_same_winners_and_do_every_run_once(tmp_path: Path) -> None:
    planned = planner(tmp_path)
    workers = [started(planned), started(planned)]
    for worker in workers:
        worker.join(PATIENCE)
    plan = planned.plan()
    calls = (plan.folder / "runs" / "calls").read_text().split()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert sorted(calls) == sorted(spec.id for spec in plan.runs) and len(calls) == plan.num_runs


@pytest.mark.process
def test_a_killed_worker_leaves_a_study_that_another_one_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    whole, broken = planner(tmp_path / "whole"), planner(tmp_path / "broken")
    started(whole).join(PATIENCE)
    for expected in (2, 7):
        worker = started(broken)
        while worker.is_alive() and sum(record_of(f) is not None for f in broken.folder.glob("runs/*[!s]")) < expected:
            time.sleep(0.005)
        worker.kill()
        worker.join(PATIENCE)
    started(broken).join(PATIENCE)
    first, second = (report_of(planned.plan()) for planned in (whole, broken))
    assert [run.id for run in first.runs] == [run.id for run in second.runs] and second.complete
    assert first.verdicts == second.verdicts


@pytest.mark.process
def test_a_trial_whose_process_is_always_killed_counts_as_tried(tmp_path: Path) -> None:
    planned = planner(tmp_path)

    def deadly(spec: RunSpec, folder: Path, budget: str | None, threads: int | None) -> None:
        if spec.name == "b-t2-s1000":
            os.kill(os.getpid(), signal.SIGKILL)
        ended(spec, folder)

    started(planned, deadly).join(PATIENCE)
    plan = planned.plan()
    assert not plan.is_open and rates(plan)["b"] == {0.001}
    assert [trial.status for trial in plan.tunings["b"].tried] == ["diverged", "finished", "failed"]


def test_shards_of_a_tuned_study_hold_whole_arms(tmp_path: Path) -> None:
    plan = planner(tmp_path).plan()
    assert [{spec.arm for spec in shard_of(plan, index, 2)} for index in (1, 2)] == [{"a"}, {"b"}]


def test_each_share_of_the_budget_is_a_run_with_a_schedule_of_its_own(tmp_path: Path) -> None:
    base = [*TINY, f"output_dir={tmp_path}", "trainer.max_steps=40", "trainer.validate_every=20", "schedule.warmup=8"]
    plan = planner(tmp_path, base=base, tuning="none", seeds=1, shares=[0.25, 0.5, 1]).plan()
    result = [
        (spec.name, spec.config["trainer"]["max_steps"], spec.config["trainer"]["validate_every"], spec.counts)
        for spec in plan.of_arm("a")
    ]
    assert result == [("a-s0-25pct", 10, 5, False), ("a-s0-50pct", 20, 10, False), ("a-s0", 40, 20, True)]
    assert [spec.config["schedule"]["warmup"] for spec in plan.of_arm("a")] == [2, 4, 8]
    for spec in plan.runs:
        write_run(plan.run_folder(spec), value=spec.share, place=spec.place)
    assert report_of(plan).arms[0].mean == 1.0 and report_of(plan).arms[0].finished == 1


def test_longer_rows_are_for_the_runs_that_count(tmp_path: Path) -> None:
    plan = planner(tmp_path, lengths=[1, 2]).plan()
    for spec in plan.runs:
        assert spec.config["evaluation"]["lengths"] != [1, 2]
        ended(spec, plan.run_folder(spec))
    later = planner(tmp_path, lengths=[1, 2]).plan()
    assert all(spec.config["evaluation"]["lengths"] == [1, 2] for spec in later.family) and len(later.family) == 4


def test_shares_of_as_many_steps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"the shares 0.5 and 0.51 are as many steps of a: remove one"):
        planner(tmp_path, tuning="none", shares=[0.5, 0.51, 1]).plan()


def test_a_share_trains_as_much_as_its_label_says_or_is_refused(tmp_path: Path) -> None:
    """0.05 of 8 steps would be one step, an eighth of them."""
    for max_steps in range(1, 60):
        for share in (0.05, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0):
            try:
                steps = steps_of(share, max_steps, arm="a", study="s")
            except ConfigurationError as error:
                nearest = max(1, round(share * max_steps)) / max_steps
                assert abs(nearest - share) > 0.1 * share and f"such as {nearest:g}, or more" in str(error)
            else:
                assert steps / max_steps == pytest.approx(share, rel=0.1)
    base = [*TINY, f"output_dir={tmp_path}", "trainer.max_steps=8", "trainer.validate_every=4"]
    with pytest.raises(
        ConfigurationError, match=r"the share 0.05 of the 8 steps of a is 0.4 steps, and 1 would be 0.1"
    ):
        planner(tmp_path, base=base, tuning="none", shares=[0.05, 1]).plan()
