"""Sweeps against what runs are: every trial composes, and what none can be is refused before the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headtohead.errors import UsageError
from headtohead.sweeps.read_sweep_file import read_sweep
from headtohead.sweeps.sweep_plan import Sweeper
from headtohead.sweeps.sweep_report import summary
from sweeps.small_sweeps import small_sweep, tiny

SWEEPS = Path(__file__).parents[2] / "sweeps"


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(SWEEPS.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_trial_of_a_sweep_that_ships_composes(file: Path) -> None:
    sweep = read_sweep(file, run_cap=12 if "run_cap" in file.read_text() else None)
    plan = Sweeper(sweep).plan
    assert all(trial.run is not None for trial in plan.trials)


def test_a_trial_is_the_run_that_h2h_train_makes_of_its_overrides(tmp_path: Path) -> None:
    plan = Sweeper(small_sweep(*tiny(tmp_path))).plan
    assert len(plan.runs) == 4 and not plan.is_open
    assert plan.folder == tmp_path / "sweeps" / "small"
    last = plan.runs[-1]
    assert last.overrides[:2] == ("optimizer.lr=0.001", "model/norm=rms_norm")
    assert last.overrides[-2:] == ("group=small", "name=small-t3")
    assert last.config["optimizer"]["lr"] == 0.001 and last.config["choices"]["model/norm"] == "rms_norm"
    assert isinstance(last.config["model"]["norm"], dict)
    assert last.place.study is None and last.place.trial is None


def test_settings_that_come_to_the_same_are_one_run(tmp_path: Path) -> None:
    twice = {"optimizer.lr": {"values": [0.001, "1e-3"]}, "seed": {"values": [1, 2]}}
    plan = Sweeper(small_sweep(*tiny(tmp_path), parameters=twice)).plan
    assert len(plan.trials) == 4 and len(plan.runs) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": {"optimizer.rl": {"values": [1, 2]}}},
         "rl is not a field of optimizer=adamw: its fields are .* lr"),
        ({"parameters": {"model/mixr": {"values": ["lstm", "gru"]}}}, "did you mean model/mixer"),
        ({"parameters": {"model/mixer": {"values": ["mamba", "mambo"]}, "model/position": {"value": "none"}}},
         "did you mean mamba"),
        ({"parameters": {"model.position": {"values": ["rotary", "alibi"]}}}, "groups are written with a slash"),
        ({"parameters": {"model.num_layers": {"values": [1, 1.5]}}}, r"num_layers=1\.5 is refused: it must be a whole"),
        ({"parameters": {"model.num_layers": {"min": 1.0, "max": 3.0}}, "method": "random", "run_cap": 1},
         "it must be a whole number"),
        ({"parameters": {"optimizer.lr": {"min": 1, "max": 3}, "seed": {"values": [1, "x"]}}, "method": "bayes",
          "run_cap": 8}, "seed=x is refused: it must be a whole number"),
        ({"metric": {"name": "validation/los"}}, "is not logged by any run: did you mean validation/loss"),
        ({"metric": {"name": "loss"}}, "is not logged by any run: did you mean"),
        ({"parameters": {"seed": {"values": [1, 2]}, "trainer": {"value": "ddp"}, "trainer.num_nodes": {"value": 2}}},
         "trainer.num_nodes=2 is refused"),
    ],
)  # fmt: skip
def test_what_no_run_can_be_is_refused_before_the_first_trial_with_the_nearest_name(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        Sweeper(small_sweep(*tiny(tmp_path, without="model.num_layers"), **changes))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_sweep_that_the_documentation_shows_is_one(tmp_path: Path) -> None:
    page = (SWEEPS.parent / "docs" / "sweeps.md").read_text()
    file = tmp_path / "shown.yaml"
    file.write_text(page.partition("```yaml\n")[2].partition("```")[0])
    plan = Sweeper(read_sweep(file)).plan
    assert set(plan.trials[0].setting.values) == {
        "model/position", "schedule", "optimizer.lr", "optimizer.betas", "trainer.gradient_clip",
    }  # fmt: skip
    assert plan.is_open and plan.num_runs == 30


def test_a_combination_that_no_run_can_have_is_named_skipped_and_counted(tmp_path: Path) -> None:
    heads: dict[str, Any] = {"model.num_heads": {"values": [3, 2]}, "seed": {"values": [1, 2]}}
    for search in ({"method": "grid"}, {"method": "random", "run_cap": 4}):
        plan = Sweeper(small_sweep(*tiny(tmp_path, without="model.num_heads"), parameters=heads, **search)).plan
        assert [trial.setting.values["model.num_heads"] for trial in plan.refused] == [3, 3]
        assert len(plan.runs) == plan.num_runs == 2 and len(plan.trials) == 4
        message = list(summary(plan))
        assert message[0].startswith("2 trials, ") and "2 of 4 combinations are skipped" in message[1]
        assert any("model.num_heads=3, seed=1: " in sentence for sentence in message)
