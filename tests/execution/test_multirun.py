"""Many runs by one command: planned, run, one of them failing, resumed after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from headtohead.cli import main
from headtohead.config.compose.composition import compose_checked
from headtohead.config.compose.overrides import override_combinations
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.data_paths import missing_data
from headtohead.config.run_id import run_id
from headtohead.errors import UsageError
from headtohead.execution.multirun import Multirun, planned_jobs, without_impossible_layers, without_missing_data
from headtohead.files.process_liveness import Owner
from headtohead.records.record import RunRecord, StudyPosition
from headtohead.records.run_folder import RunFolder, find_runs
from studies.small_studies import TINY, write_run


def plan(*overrides: str) -> Multirun:
    def composed(point: Sequence[str]) -> dict:
        return compose_checked("train", point)

    return planned_jobs(override_combinations(overrides), composed)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_combination_is_an_ordinary_run_with_an_id_of_its_content() -> None:
    multirun = plan("model/norm=layer_norm,rms_norm", "seed=0,1", "group=mine")
    assert len(multirun.jobs) == 4 and not multirun.refused
    job = multirun.jobs[3]
    assert job.config["choices"]["model/norm"] == "rms_norm" and job.config["seed"] == 1
    assert job.id == run_id(compose_checked("train", ["seed=1", "model/norm=rms_norm"]))
    assert multirun.run_folder(job) == Path("outputs/mine") / job.id and job.place == StudyPosition()
    assert job.name == job.config["name"]


def test_combinations_that_come_to_the_same_are_one_run() -> None:
    assert len(plan("optimizer.lr=1e-3,0.001", "name=a,b").jobs) == 1


def test_combinations_that_cannot_be_are_told_and_take_no_other_along() -> None:
    multirun = plan("model/mixer=softmax_attention,lstm", "model/position=rotary,none", "trainer.max_steps=3")
    assert len(multirun.jobs) == 3
    assert list(multirun.refused) == ["model/mixer=lstm model/position=rotary"]
    assert "use model/position=none" in multirun.refused["model/mixer=lstm model/position=rotary"]


def test_data_that_are_not_there_take_no_other_run_along_and_none_that_has_finished(here: Path) -> None:
    Path("there.txt").write_text("some words\n" * 50)
    multirun = plan("data=text", "data.path=there.txt,gone.txt,lost.txt")
    finished = next(job for job in multirun.jobs if "data.path=gone.txt" in job.overrides)
    write_run(multirun.run_folder(finished), "finished")
    checked = without_missing_data(multirun)
    assert [job.overrides[1] for job in checked.jobs] == ["data.path=there.txt", "data.path=gone.txt"]
    assert list(checked.refused) == ["data.path=lost.txt"] and "does not exist" in checked.refused["data.path=lost.txt"]
    with pytest.raises(ConfigurationError, match=r"lost\.txt does not exist"):
        without_missing_data(plan("data=text", "data.path=lost.txt"))


@pytest.mark.parametrize("check", [without_missing_data, without_impossible_layers])
def test_runs_that_have_ended_are_not_checked_again(
    check: Callable[[Multirun], Multirun], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []
    monkeypatch.setattr("headtohead.execution.multirun.missing_data", lambda config: checked.append(config["seed"]))
    monkeypatch.setattr("headtohead.config.layer_check.layers_error", lambda config: checked.append(config["seed"]))
    planned = plan("seed=0,1,2")
    write_run(planned.run_folder(planned.jobs[1]), "finished")
    write_run(planned.run_folder(planned.jobs[2]), "failed")
    assert len(check(planned).jobs) == 3 and checked == [0]


def test_what_a_class_of_users_makes_of_a_path_it_knows_alone() -> None:
    part = {"path": "s3://bucket/rows", "folder": "bucket"}
    config = compose_checked("train") | {"data": {"_target_": "headtohead.data.sources.text_files.TextFiles", **part}}
    assert "does not exist" in str(missing_data(config))
    assert missing_data({**config, "data": {"_target_": "mine.Rows", **part}}) is None


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["seed=0,1", "trainer=ddp", "trainer.num_nodes=2"], "launcher=...: trainer.num_nodes=2 is refused, since a"),
        (["seed=0,1", "optimizer.lrr=1"], "did you mean optimizer.lr"),
        (["seed=a,b"], "seed=a is refused: it must be a whole number"),
    ],
)
def test_what_makes_no_multirun_is_refused_before_the_first_run(overrides: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan(*overrides)


@pytest.mark.slow
@pytest.mark.process
def test_a_failing_run_takes_no_other_along_one_that_was_killed_goes_on_and_what_is_done_is_not_run_again(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """That a model is too short for its data is known only when the data is made."""
    overrides = [*TINY, "model.max_length=2,null"]
    leave_killed(plan(*overrides), "model.max_length=null")
    assert main(["train", "-m", *overrides]) == 1
    shown = capfd.readouterr()
    records = {run.read_record().status: run.read_record() for run in find_runs("outputs")}
    assert sorted(records) == ["failed", "finished"], shown.err
    assert records["finished"].timing.starts == 2
    assert "1 of 2 finished" in shown.err and "failed (" in shown.err and "model.max_length=2" in shown.err
    assert "finished" in shown.out
    done = {run.path / "record.json": (run.path / "record.json").stat().st_mtime_ns for run in find_runs("outputs")}
    assert main(["train", "-m", *overrides[:-1], "model.max_length=null", "--workers", "2"]) == 0
    assert "1 run, 0 to run" in capfd.readouterr().err
    assert done == {path: path.stat().st_mtime_ns for path in done}


def leave_killed(multirun: Multirun, override: str) -> None:
    """A run whose process was killed before its first checkpoint."""
    (job,) = [job for job in multirun.jobs if override in job.overrides]
    run = RunFolder.create_at(multirun.run_folder(job))
    run.write_record(RunRecord(id=run.id, name=job.name, status="running", config=dict(job.config)))
    (run.path / "leases" / "writer.1").write_text(json.dumps(asdict(replace(Owner.this_process(), started="long ago"))))


def test_where_runs_are_trained_is_not_swept_over(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "-m", *TINY, "launcher=local,slurm"]) == 2
    assert "launcher=local,slurm holds several values" in capsys.readouterr().err
    assert main(["train", *TINY, "seed=0,1", "launcher=local"]) == 2
    assert "these overrides make 2 runs: give --multirun too" in capsys.readouterr().err
