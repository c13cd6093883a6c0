"""Results of many runs say which run failed, by what error, and where it says more; so do workers that died."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headtohead as h2h
from headtohead.api.studies import StudyRequest
from headtohead.execution.launchers.launcher import EndedCommand
from headtohead.records.run_folder import log_file
from headtohead.sweeps.sweep import Outcome

TINY = ["data=copy", "model.d_model=16", "trainer.max_steps=2"]
ERROR = "RuntimeError: the shape of x is wrong"
SWEEP = """
program: h2h
command: [h2h, train, "${args_no_hyphens}"]
method: grid
metric: {name: validation/loss, goal: minimize}
parameters:
  data: {value: copy}
  optimizer.lr: {values: [0.1, 0.2, 0.3]}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def a_study() -> h2h.Study:
    return h2h.Study(
        question="Does it?",
        arms={"layer": [], "rms": ["model/norm=rms_norm"]},
        base=TINY,
        seeds=2,
        name="shown",
        metric="test/loss",
        direction="min",
    )


def test_a_sweep_says_why_a_trial_has_no_value_and_where_it_says_more() -> None:
    Path("rates.yaml").write_text(SWEEP, encoding="utf-8")
    results = h2h.sweep("rates.yaml", run=False)
    assert not results.sentences
    first, second, _ = results.plan.trials
    assert first.run is not None and second.run is not None
    log = log_file(results.plan.folder, second.run.id)
    log.parent.mkdir(parents=True)
    log.write_text("Traceback ...")
    ends = {
        0: Outcome("out of memory", reason="too large"),
        1: Outcome("failed", reason=ERROR),
        2: Outcome("done", 1.0),
    }
    ended = replace(results, plan=replace(results.plan, outcomes=ends), errors=["a worker ended"])
    assert list(ended.sentences) == [
        "a worker ended",
        f"trial 0, out of memory: too large ({results.plan.run_folder(first.run)})",
        f"trial 1, failed: {ERROR} ({log})",
    ]


def test_a_study_names_the_runs_that_failed_alike_and_where_they_say_more() -> None:
    results = h2h.study(a_study(), run=False)
    runs = tuple(
        replace(run, status="failed", reason=ERROR) if run.arm == "rms" else run for run in results.study_report.runs
    )
    failed = replace(results, study_report=replace(results.study_report, runs=runs))
    first = next(run for run in runs if run.arm == "rms")
    assert failed.failures == [f"rms-s0, rms-s1 failed: {ERROR} ({first.folder})"]
    log = log_file(results.plan.folder, first.id)
    log.parent.mkdir(parents=True)
    log.write_text("Traceback ...")
    assert failed.failures == [f"rms-s0, rms-s1 failed: {ERROR} ({log})"]


def test_a_study_whose_worker_dies_returns_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command: Any = SimpleNamespace(log=tmp_path / "worker.log")
    command.log.write_text("killed\n")
    monkeypatch.setattr(StudyRequest, "conduct", lambda *_, **__: [EndedCommand(command, 137)])
    results = h2h.study(a_study(), progress=False)
    assert results.sentences[0] == f"a worker ended with code 137 ({command.log}): killed"
    assert "4 of 4 runs are not done" in results.title
