"""Whoever asks what a study takes hears the same: `study new`, `--plan`, and `.estimate()` from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headtohead as h2h
from headtohead.cli import main
from headtohead.studies.planning import cost_estimate
from headtohead.studies.planning.study_on_devices import plan_on_devices
from headtohead.studies.planning.study_plan import StudyPlanner
from studies.small_studies import TINY, small_study


@pytest.mark.slow
def test_a_new_study_its_plan_and_its_estimate_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def timed(configs: Mapping[str, object], threads: int | None) -> dict[str, float]:
        return dict.fromkeys(configs, 40.0 / (threads or 1e9))

    monkeypatch.setattr(cost_estimate, "_calibrated", timed)
    monkeypatch.setattr("headtohead.execution.launchers.launcher.processors", lambda: 4)
    monkeypatch.chdir(tmp_path)
    arms = {"layer": [], "rms": ["model/norm=rms_norm"]}
    tiny = ["data=copy", "model.d_model=16", "trainer.max_steps=2", "budget=null", "metric=test/loss"]
    written = h2h.new_study("mine", None, tiny, arms=arms, seeds=2)
    capsys.readouterr()
    assert main(["study", "mine.yaml", "--plan"]) == 0
    estimated = h2h.study("mine.yaml", run=False).estimate()
    sentence = written.about[-1]
    assert sentence.startswith("4 of 4 runs to do") and "about 40 s on 1 worker" in sentence
    assert sentence in " ".join(capsys.readouterr().out.split())
    assert estimated.title == f"mine: {sentence}"


@pytest.mark.parametrize("seeds", [2, {"start": 3, "most": 6, "until": "decided"}])
def test_a_plan_on_devices_adds_up_the_runs_that_the_estimate_counts(
    seeds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headtohead.estimates.plan.cheapest_plan", lambda *_, **__: SimpleNamespace(best=None))
    planned = StudyPlanner(
        small_study(
            base=[*TINY, f"output_dir={tmp_path}", "trainer.max_steps=40", "task=masked_lm", "model=encoder_only"],
            arms={"scratch": [], "pretrained": ["init_from=foundation:reader"]},
            baseline="scratch",
            foundations={"reader": ["trainer.max_steps=80"]},
            tuning={"search": "grid", "trials": 3, "space": {"optimizer.lr": [0.1, 0.01, 0.001]}, "steps": 10},
            seeds=seeds,
            **({"shares": [0.25, 1]} if isinstance(seeds, int) else {}),
        )
    ).plan()
    costs = cost_estimate.estimate(planned, timer=lambda configs: dict.fromkeys(configs, 1.0))
    on_devices = plan_on_devices(planned, "h100")
    assert {arm: (one.runs, one.whole_runs) for arm, one in on_devices.items()} == {
        arm.arm: (arm.runs, arm.missing_share) for arm in costs.arms
    }
    most = 2 * 1.25 if isinstance(seeds, int) else 6
    assert on_devices["pretrained"].whole_runs == most + 3 / 4
