"""Shards of a study: each ends with its own runs, and together they are the study."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headtohead.api.studies import StudyRequest
from headtohead.comparison.study_board import StudyBoard, read_board
from headtohead.execution.launchers.worker_commands import workers_for
from headtohead.execution.monitor import Replan
from headtohead.execution.run_spec import RunSpec
from headtohead.records.record import RunTiming
from headtohead.studies.planning.shards import shard_plan
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from studies.small_studies import TINY, small_study, write_run

SEARCH = {"search": "grid", "trials": 2, "space": {"optimizer.lr": [0.001, 0.002]}}
STUDIES: dict[str, dict[str, Any]] = {
    "fixed seeds": {"seeds": 3},
    "shares of the budget": {"seeds": 2, "shares": [0.5, 1]},
    "tuned": {"seeds": 2, "tuning": SEARCH},
    "tuned by trials in turn": {"seeds": 2, "tuning": {**SEARCH, "seeds": 2}},
    "until decided": {"seeds": {"start": 5, "most": 7, "until": "decided"}},
}


def planner(folder: Path, **changes: Any) -> StudyPlanner:
    return StudyPlanner(small_study(base=[*TINY, f"output_dir={folder}"], **changes))


def make(plan: StudyPlan, runs: Any) -> int:
    """Make the runs of these that are missing, as if they had been trained."""
    missing = [run for run in runs if not (plan.run_folder(run) / "record.json").exists()]
    for run in missing:
        value = 1 + (run.arm == "b") + 0.1 * run.seed % 0.3
        metrics = {"validation": {"loss": value + run.config["optimizer"]["lr"]}}
        timing = RunTiming(started="2026-01-01T00:00:00+00:00")  # by a clock that is behind
        write_run(plan.run_folder(run), value=value, place=run.place, metrics=metrics, timing=timing)
    return len(missing)


def work(planning: StudyPlanner, index: int, count: int) -> list[str]:
    """Do a share as its workers do, and return its runs."""
    share = shard_plan(planning.plan, index, count)
    while make(share.plan, share.runs) and share.is_open:
        share = shard_plan(planning.plan, index, count)
    assert not share.is_open, "it ends once nothing is left of its own"
    for seed in () if share.plan.tunings else {run.seed for run in share.runs}:
        of_seed = [run.id for run in share.plan.runs if run.seed == seed]
        assert {run.id for run in share.runs if run.seed == seed} == set(of_seed), "a seed has all its arms and shares"
    return [run.id for run in share.runs]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("kind", STUDIES)
def test_shards_end_without_each_other_and_are_the_study_once_put_together(
    kind: str, count: int, tmp_path: Path
) -> None:
    whole = planner(tmp_path / "whole", **STUDIES[kind])
    while make(whole.plan(), whole.plan().runs):
        pass
    parts = [planner(tmp_path / f"{index}", **STUDIES[kind]) for index in range(1, count + 1)]
    done: list[str] = []
    for _ in range(5):
        done = [run for index, part in enumerate(parts, 1) for run in work(part, index, count)]
        assert len(done) == len(set(done)), "no run is in two shards"
        for part in parts:
            for other in parts:
                if part is not other and (other.folder / "runs").is_dir():
                    shutil.copytree(other.folder / "runs", part.folder / "runs", dirs_exist_ok=True)
        if not parts[0].plan().is_open:
            break
    together = parts[0].plan()
    assert not together.is_open and sorted(done) == sorted(run.id for run in together.runs)
    assert sorted(done) == sorted(run.id for run in whole.plan().runs)


def conducted(request: StudyRequest, *, retry: bool = False) -> StudyBoard:
    """Conduct a study whose runs are made as if they had been trained, and return its board."""

    def make_all(_: StudyRequest, plan: StudyPlan, again: Replan, report: object) -> list[Any]:
        runs: Sequence[RunSpec] = plan.runs
        while make(request.planner.plan(), runs):
            _, runs = again()
        return []

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(StudyRequest, "_run_to_the_end", make_all)
        request.conduct(lambda _: None, retry=retry)
    return read_board(request.planner.folder)


def of(folder: Path, **changes: Any) -> StudyRequest:
    study = small_study(base=[*TINY, f"output_dir={folder}"], **changes)
    return StudyRequest(study, workers_for((), 1, None, None, ())[0], ("study", "small"))


@pytest.mark.parametrize("kind", STUDIES)
def test_the_board_has_the_runs_of_the_plan_whenever_a_study_was_started_and_with_what(
    kind: str, tmp_path: Path
) -> None:
    """Once from nothing, once where all is done, and once where failed runs are restarted."""
    assert conducted(of(tmp_path, **STUDIES[kind])).is_done
    assert conducted(of(tmp_path, **STUDIES[kind])).is_done
    for run in of(tmp_path, **STUDIES[kind]).planner.plan().runs:
        if run.arm == "b":
            write_run(
                StudyPlanner(small_study(base=[*TINY, f"output_dir={tmp_path}"])).plan().run_folder(run), "failed"
            )
    board = conducted(of(tmp_path, **STUDIES[kind]), retry=True)
    assert board.is_done and not board.counts["failed"] and not board.counts["not started"]


def test_a_trial_more_that_does_not_win_leaves_the_runs_that_there_are_on_the_board(tmp_path: Path) -> None:
    conducted(of(tmp_path, **STUDIES["tuned"]))
    more = {**SEARCH, "trials": 3, "space": {"optimizer.lr": [0.001, 0.002, 0.003]}}
    board = conducted(of(tmp_path, seeds=2, tuning=more))
    assert board.is_done and board.counts["done"] == 4
