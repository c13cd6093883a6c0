"""Whoever asks what a study takes hears the same: `study new`, `--plan`, and `.estimate()` from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import headtohead as h2h
from headtohead.cli import main
from headtohead.studies.planning import cost_estimate


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
