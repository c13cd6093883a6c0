"""A study that would take more disk than it may is refused before it is begun, with the policies that fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headtohead.cli import main
from headtohead.config.errors import ConfigurationError
from headtohead.studies.planning.cost_estimate import CostEstimate, estimate
from headtohead.studies.planning.disk_budget import POLICIES, refuse_over_disk
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from studies.small_studies import TINY, small_study, write_run

TUNING = {"search": "grid", "trials": 2, "space": {"optimizer.lr": [0.001, 0.01]}, "steps": 2}


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))


def planned(folder: Path, *overrides: str, **changes: Any) -> tuple[StudyPlan, CostEstimate]:
    base = [*TINY, "model.d_model=64", f"output_dir={folder}", *overrides]
    plan = StudyPlanner(small_study(base=base, seeds=3, **changes)).plan()
    return plan, estimate(plan, timer=lambda configs: dict.fromkeys(configs, 1.0))


def total(costs: CostEstimate, workers: int = 1) -> float:
    return (costs.disk_bytes + workers * costs.passing_bytes) / 1e9


@pytest.mark.slow
@pytest.mark.parametrize("tuning", ["none", TUNING], ids=["untuned", "tuned"])
def test_each_policy_that_a_refusal_names_is_within_the_budget_and_the_others_are_not(
    tmp_path: Path, tuning: Any
) -> None:
    sizes = {keep: total(planned(tmp_path, f"trainer.keep_checkpoints={keep}", tuning=tuning)[1]) for keep in POLICIES}
    plan, costs = planned(tmp_path, tuning=tuning)
    refuse_over_disk(plan, costs, 1, total(costs) * 1.001)
    for budget in (0.999 * total(costs), 1.001 * sizes["best"], 1.001 * sizes["none"], 0.5 * sizes["none"]):
        with pytest.raises(ConfigurationError, match=r"--disk .* is less than it would take") as refusal:
            refuse_over_disk(plan, costs, 1, budget)
        named = set(re.findall(r"keep_checkpoints=(\w+)", str(refusal.value)))
        assert named == {keep for keep, size in sizes.items() if size <= budget}
    assert "give more, or plan fewer seeds" in str(refusal.value)


def test_workers_count_and_so_does_what_is_there(tmp_path: Path) -> None:
    plan, costs = planned(tmp_path)
    refuse_over_disk(plan, costs, 1, 1.001 * total(costs))
    with pytest.raises(ConfigurationError, match="less than it would take"):
        refuse_over_disk(plan, costs, 2, 1.001 * total(costs))
    (plan.folder / "tables").mkdir(parents=True)
    (plan.folder / "tables" / "large.csv").write_bytes(bytes(200_000))
    with pytest.raises(ConfigurationError, match=r"are there.*h2h runs prune .*studies/small --keep best"):
        refuse_over_disk(plan, costs, 1, 1.001 * total(costs))


def test_a_study_that_is_done_is_refused_nothing(tmp_path: Path) -> None:
    plan, _ = planned(tmp_path)
    for run in plan.runs:
        write_run(plan.run_folder(run))
    refuse_over_disk(plan, estimate(plan), 1, 1e-9)


@pytest.mark.process
@pytest.mark.slow
def test_the_command_refuses_before_anything_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["study", "norms_small", "trainer=cpu", "trainer.threads=1", "--disk", "1e-6"]) == 2
    assert "--disk 1e-06 (GB) is less than it would take" in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.glob("outputs/studies/*/runs/*"))
