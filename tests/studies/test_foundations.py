"""Runs that arms start from: made first, one for every seed, and in no verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import headtohead as h2h
from headtohead.comparison.arms import counts, excluded
from headtohead.config.errors import ConfigurationError
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import record_of, train_run
from headtohead.records.record import FOUNDATION
from headtohead.studies.matching.budgets import Budget
from headtohead.studies.matching.matching import Matching
from headtohead.studies.planning.cost_estimate import estimate
from headtohead.studies.planning.registration import register
from headtohead.studies.planning.shards import shard_of
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.studies.results.study_report import report_of
from studies.small_studies import TINY, WRITTEN, small_study, write_run

ARMS = {"scratch": [], "pretrained": ["init_from=foundation:reader"]}
READER = {"reader": ["trainer.max_steps=6", "data.num_train=50"]}


def planner(folder: Path, **changes: Any) -> StudyPlanner:
    provided = {"base": [*TINY, f"output_dir={folder}"], "seeds": 2, "arms": ARMS, "baseline": "scratch"}
    return StudyPlanner(small_study(**{**provided, "foundations": READER, **changes}))


def names(plan: StudyPlan) -> list[str]:
    return [run.name for run in plan.runs]


def end(plan: StudyPlan, run: RunSpec, **fields: Any) -> None:
    job = {"job_type": FOUNDATION} if run.is_foundation else {}
    write_run(plan.run_folder(run), place=run.place, **job, **fields)


def test_a_run_is_planned_when_what_it_starts_from_has_ended(tmp_path: Path) -> None:
    planned = planner(tmp_path)
    plan = planned.plan()
    assert names(plan) == ["reader-s0", "reader-s1", "scratch-s0", "scratch-s1"]
    assert plan.is_open and plan.num_runs == 6
    end(plan, plan.runs[1])
    plan = planned.plan()
    assert names(plan)[2:] == ["scratch-s0", "scratch-s1", "pretrained-s1"] and plan.is_open
    end(plan, plan.runs[0])
    plan = planned.plan()
    assert names(plan)[2:] == ["scratch-s0", "pretrained-s0", "scratch-s1", "pretrained-s1"]
    assert not plan.is_open and plan.num_runs == len(plan.runs) == 6


def test_each_seed_starts_from_its_own_foundation(tmp_path: Path) -> None:
    planned = planner(tmp_path)
    for run in planned.plan().runs[:2]:
        end(planned.plan(), run)
    plan = planned.plan()
    foundation_arms = {run.seed: plan.run_folder(run) for run in plan.runs if run.is_foundation}
    begun = {run.seed: run.config["init_from"] for run in plan.runs if run.arm == "pretrained"}
    assert begun == {seed: f"run:{folder}" for seed, folder in foundation_arms.items()}
    assert all(run.config["init_from"] is None for run in plan.runs if run.arm == "scratch")


def test_what_every_arm_starts_from_may_be_written_in_the_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    start = "init_from=foundation:reader"
    norms = {"scratch": [], "rms": ["model/norm=rms_norm"]}
    of_each = {"base": list(TINY), "arms": {arm: [start, *own] for arm, own in norms.items()}}
    in_base = {"base": [start, *TINY], "arms": norms}
    ids, matched = [], []

    def match_composed(configs: dict[str, Any], baseline: str, budget: Budget, *_: Any, **__: Any) -> Matching:
        matched.append(configs)
        return Matching(budget, baseline, 1.0, ())

    monkeypatch.setattr("headtohead.studies.matching.solver.match_composed", match_composed)
    for number, changes in enumerate((of_each, in_base)):
        folder = f"output_dir={tmp_path / str(number)}"
        planned = planner(tmp_path, **{**changes, "base": [*changes["base"], folder]}, seeds=1)
        end(planned.plan(), planned.plan().runs[0])
        ids.append([run.id for run in planned.plan().runs])
        file = Path(f"study{number}.yaml")
        file.write_text(yaml.safe_dump({**WRITTEN, **changes, "baseline": "scratch", "foundations": READER}))
        h2h.match(str(file))
    assert ids[0] == ids[1] and len(ids[0]) == 3
    assert matched[0] == matched[1] and len(matched) == 2


def test_an_id_tells_what_a_run_starts_from_and_not_where_that_lies(tmp_path: Path) -> None:
    def id_of(folder: Path, **changes: Any) -> str:
        planned = planner(folder, seeds=1, **changes)
        end(planned.plan(), planned.plan().runs[0])
        return next(run.id for run in planned.plan().runs if run.arm == "pretrained")

    first = id_of(tmp_path / "here")
    assert first == id_of(tmp_path / "there")
    assert first != id_of(tmp_path / "else", foundations={"reader": ["trainer.max_steps=7", "data.num_train=50"]})


def test_no_verdict_rests_on_a_foundation_and_what_it_cost_is_said(tmp_path: Path) -> None:
    planned = planner(tmp_path)
    for run in planned.plan().runs[:2]:
        end(planned.plan(), run, value=99.0)
    plan = planned.plan()
    register(plan)
    for run in plan.family:
        end(plan, run, value=1.0 + 0.1 * run.seed - (run.arm == "pretrained"))
    report = report_of(plan)
    assert report.complete and [arm.arm for arm in report.arms] == ["scratch", "pretrained"]
    assert report.verdicts[0].difference == pytest.approx(-1)
    assert any(remark.startswith("pretrained starts from foundation reader, whose") for remark in report.remarks)
    records = [record_of(plan.run_folder(run)) for run in plan.runs]
    result = [record for record in records if record is not None]
    assert sum(counts(record) for record in result) == 4
    assert excluded(result) == "left out: 2 runs that others start from"


def test_a_foundation_is_part_of_what_a_study_will_take(tmp_path: Path) -> None:
    estimated = estimate(planner(tmp_path).plan(), timer=lambda configs: dict.fromkeys(configs, 1.0))
    assert {arm.arm: (arm.runs, arm.missing) for arm in estimated.arms} == {
        "reader": (2, 2), "scratch": (2, 2), "pretrained": (2, 2),
    }  # fmt: skip


def test_what_starts_from_a_failed_foundation_fails_and_says_why(tmp_path: Path) -> None:
    planned = planner(tmp_path, seeds=1)
    end(planned.plan(), planned.plan().runs[0], status="failed", value=None, name="reader-s0", reason="no memory")
    plan = planned.plan()
    run = next(run for run in plan.runs if run.arm == "pretrained")
    train_run(run, plan.run_folder(run), None, 1)
    record = record_of(plan.run_folder(run))
    assert record is not None and record.status == "failed"
    assert record.reason == "UsageError: it starts from reader-s0, which failed: no memory"


@pytest.mark.slow
def test_an_arm_learns_on_from_the_weights_of_its_foundation(tmp_path: Path) -> None:
    planned = planner(tmp_path, seeds=1)
    for _ in range(2):
        plan = planned.plan()
        for run in plan.runs:
            if record_of(plan.run_folder(run)) is None:
                train_run(run, plan.run_folder(run), None, 1)
    result = {run.arm: record_of(plan.run_folder(run)) for run in planned.plan().runs}
    assert {arm: record.status for arm, record in result.items() if record} == dict.fromkeys(result, "finished")
    assert result["reader"] is not None and result["reader"].job_type == FOUNDATION
    assert result["pretrained"] is not None and result["scratch"] is not None
    assert result["pretrained"].metrics["test"]["loss"] != result["scratch"].metrics["test"]["loss"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"foundations": {"reeder": []}}, "arm pretrained starts from foundation:reader, which is none: did you mean"),
        ({"arms": {"scratch": [], "b": ["model/norm=none"]}}, "no arm starts from foundation reader"),
        ({"arms": {**ARMS, "reader": ["seed=1"]}}, "reader is an arm and a foundation"),
        ({"foundations": {"reader": ["init_from=foundation:reader"]}}, "foundation reader starts from a foundation"),
        ({"foundations": {"reader": ["seed=3"]}}, "foundation reader holds seed=3, which the study sets itself"),
    ],
)
def test_foundations_that_make_no_sense_are_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        planner(tmp_path, **changes)


def test_trials_start_from_a_foundation_of_their_own_seed(tmp_path: Path) -> None:
    tuning = {"search": "grid", "trials": 2, "space": {"optimizer.lr": [0.1, 0.01]}}
    planned = planner(tmp_path, seeds=1, tuning=tuning)
    plan = planned.plan()
    assert names(plan) == ["reader-s1000", "reader-s0", "scratch-t0-s1000", "scratch-t1-s1000"] and plan.is_open
    estimated = estimate(plan, timer=lambda configs: dict.fromkeys(configs, 1.0))
    assert {arm.arm: (arm.runs, arm.missing) for arm in estimated.arms} == {
        "reader": (2, 2), "scratch": (3, 3), "pretrained": (3, 3),
    }  # fmt: skip
    for _ in range(4):
        for run in planned.plan().runs:
            if record_of(plan.run_folder(run)) is None:
                rate = run.config["optimizer"]["lr"]
                end(plan, run, metrics={"validation": {"loss": rate}, "test": {"loss": rate}})
    plan = planned.plan()
    assert not plan.is_open and plan.num_runs == len(plan.runs) == 8
    begun = {run.name: run.config["init_from"] for run in plan.of_arm("pretrained")}
    folders = {run.name: f"run:{plan.run_folder(run)}" for run in plan.of_arm("reader")}
    trials = dict.fromkeys(("pretrained-t0-s1000", "pretrained-t1-s1000"), folders["reader-s1000"])
    assert begun == {**trials, "pretrained-s0": folders["reader-s0"]}
    assert all(run.config["optimizer"]["lr"] == 0.01 for run in plan.family)


def test_each_seed_of_a_trial_starts_from_the_foundation_of_that_seed(tmp_path: Path) -> None:
    tuning = {"search": "grid", "trials": 2, "seeds": 2, "space": {"optimizer.lr": [0.1, 0.01]}}
    planned = planner(tmp_path, seeds=1, tuning=tuning)
    estimated = estimate(planned.plan(), timer=lambda configs: dict.fromkeys(configs, 1.0))
    assert {arm.arm: arm.runs for arm in estimated.arms} == {"reader": 3, "scratch": 5, "pretrained": 5}
    for _ in range(4):
        for run in (plan := planned.plan()).runs:
            if record_of(plan.run_folder(run)) is None:
                lucky = run.seed == 1000 and run.config["optimizer"]["lr"] == 0.1
                loss = 0.0 if lucky else run.config["optimizer"]["lr"]
                end(plan, run, metrics={"validation": {"loss": loss}, "test": {"loss": loss}})
    plan = planned.plan()
    assert not plan.is_open and plan.num_runs == len(plan.runs) == 13
    begun = {run.name: run.config["init_from"] for run in plan.of_arm("pretrained") if run.trial is not None}
    folders = {run.seed: f"run:{plan.run_folder(run)}" for run in plan.of_arm("reader")}
    assert begun == {f"pretrained-t{trial}-s{seed}": folders[seed] for trial in (0, 1) for seed in (1000, 1001)}
    assert all(run.config["optimizer"]["lr"] == 0.01 for run in plan.family), "the mean decides, not the lucky seed"


def test_shares_of_runs_need_one_folder_for_foundations(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--shard is refused, since arms start from runs"):
        shard_of(planner(tmp_path).plan(), 1, 2)
