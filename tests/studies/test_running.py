"""One run of a study, trained for real."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import is_done, record_of, train_run
from headtohead.studies.planning.study_plan import StudyPlanner
from studies.small_studies import TINY, small_study, write_run
from waiting import until


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    return StudyPlanner(small_study(base=[*TINY, f"output_dir={tmp_path}"], seeds=1)).plan().runs[0]


@pytest.mark.slow
def test_a_run_goes_into_its_folder_and_says_what_it_is(run: RunSpec, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / run.id
    train_run(run, folder, "equal_tokens", 1)
    record = record_of(folder)
    assert record is not None and record.status == "finished" and is_done(folder)
    assert (record.id, record.name, record.group) == (run.id, "a-s0", "small")
    assert record.budget == {"kind": "equal_tokens"} and record.config["trainer"]["threads"] == 1


@pytest.mark.process
def test_half_a_run_is_gone_on_with_where_its_checkpoint_is(run: RunSpec, tmp_path: Path) -> None:
    whole, half = tmp_path / "whole" / run.id, tmp_path / "half" / run.id
    longer = replace(run, config={**run.config, "trainer": {**run.config["trainer"], "max_steps": 60}})
    train_run(longer, whole, None, 1)
    _train_until_killed(longer, half)
    record = record_of(half)
    assert record is not None and record.status == "interrupted" and not is_done(half)
    train_run(longer, half, None, 1)
    first, second = record_of(whole), record_of(half)
    assert first is not None and second is not None and second.timing.starts == 2
    assert second.metrics == first.metrics and second.status == "finished"


def test_what_fails_before_training_has_a_record_too(run: RunSpec, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / run.id
    config = {**run.config, "model": {**run.config["model"], "vocab_size": 3}}
    train_run(replace(run, config=config), folder, None, 1)
    record = record_of(folder)
    assert record is not None and record.status == "failed" and is_done(folder)
    assert record.reason is not None and "model.vocab_size=3 is smaller than" in record.reason


def test_a_result_is_not_overwritten_by_a_later_failure(run: RunSpec, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / run.id
    write_run(folder, "finished", seed=0)
    train_run(run, folder, None, 1)
    record = record_of(folder)
    assert record is not None and record.status == "finished"


def _train_until_killed(run: RunSpec, folder: Path) -> None:
    """Train in a separate process that is killed long before its last step."""
    process = multiprocessing.get_context("fork").Process(target=train_run, args=(run, folder, None, 1))
    process.start()
    until(lambda: (folder / "checkpoints" / "last.ckpt").exists() or not process.is_alive())
    assert process.is_alive()
    process.kill()
    process.join()
