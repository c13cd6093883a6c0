"""Shards of a study: each ends with its own runs, and together they are the study."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

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
        write_run(plan.run_folder(run), value=value, place=run.place, metrics=metrics)
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
