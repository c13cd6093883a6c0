"""Many runs by one command: planned, run, one of them failing, gone on with after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from headtohead.building.combining import combinations
from headtohead.building.configuration import compose_checked
from headtohead.building.errors import ConfigurationError
from headtohead.cli import main
from headtohead.studying.cells import run_id
from headtohead.studying.multirun import Multirun, planned
from headtohead.tracking.record import Place
from headtohead.tracking.store import find_runs
from studying.small_studies import TINY

PROGRAM = (sys.executable, "-c", "import sys; from headtohead.cli import main; sys.exit(main())")


def plan(*overrides: str) -> Multirun:
    def composed(point: Sequence[str]) -> dict:
        return compose_checked("train", point)

    return planned(combinations(overrides), composed)


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
    assert multirun.run_folder(job) == Path("outputs/mine") / job.id and job.place == Place()
    assert job.name == job.config["name"]


def test_combinations_that_come_to_the_same_are_one_run() -> None:
    assert len(plan("optimizer.lr=1e-3,0.001", "name=a,b").jobs) == 1


def test_combinations_that_cannot_be_are_told_and_take_no_other_along() -> None:
    multirun = plan("model/mixer=softmax_attention,lstm", "model/position=rotary,none", "trainer.max_steps=3")
    assert len(multirun.jobs) == 3
    assert list(multirun.refused) == ["model/mixer=lstm model/position=rotary"]
    assert "use model/position=none" in multirun.refused["model/mixer=lstm model/position=rotary"]


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["seed=0,1", "trainer=ddp"], "trainer.devices=2 is refused with --multirun, since Lightning starts"),
        (["trainer=cpu,ddp"], "trainer.devices=2 is refused with --multirun"),
        (["seed=0,1", "optimizer.lrr=1"], "did you mean optimizer.lr"),
        (["seed=a,b"], "seed=a is refused: it must be a whole number"),
    ],
)
def test_what_makes_no_multirun_is_refused_before_the_first_run(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        plan(*overrides)


@pytest.mark.slow
def test_a_failing_run_takes_no_other_along_and_what_is_done_is_not_run_again(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """That a model is too short for its data is known only when the data is made."""
    command = ["train", "-m", *TINY, "model.max_length=2,null"]
    assert main(command) == 1
    shown = capfd.readouterr()
    statuses = sorted(run.read_record().status for run in find_runs("outputs"))
    assert statuses == ["failed", "finished"], shown.err
    assert "1 of 2 finished" in shown.err and "failed (" in shown.err and "model.max_length=2" in shown.err
    assert "finished" in shown.out
    done = {run.path / "record.json": (run.path / "record.json").stat().st_mtime_ns for run in find_runs("outputs")}
    assert main([*command[:-1], "model.max_length=null", "--workers", "2"]) == 0
    assert "1 runs, 0 of them to do" in capfd.readouterr().err
    assert done == {path: path.stat().st_mtime_ns for path in done}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="runs are forked")
def test_a_killed_multirun_goes_on_where_it_was(here: Path) -> None:
    command = [*PROGRAM, "train", "-m", *TINY, "seed=0", "trainer.max_steps=300", "trainer.validate_every=100"]
    with subprocess.Popen(command, env=os.environ, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as first:
        deadline = time.monotonic() + 120
        while not any(run.metrics_file.path.exists() for run in find_runs("outputs")) and time.monotonic() < deadline:
            time.sleep(0.2)
        first.send_signal(signal.SIGKILL)
    assert subprocess.run(command, check=False, capture_output=True, env=os.environ).returncode == 0
    records = [json.loads((run.path / "record.json").read_text()) for run in find_runs("outputs")]
    assert [record["status"] for record in records] == ["finished"]
    assert records[0]["timing"]["starts"] == 2, "the run that was stopped went on"
    assert all(run.metrics()["train/loss"].step == list(range(1, 301)) for run in find_runs("outputs"))
