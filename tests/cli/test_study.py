"""`h2h study`, as it is typed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headtohead.cli import main
from headtohead.records.run_folder import scan
from waiting import PATIENCE, until
from warm_commands import WarmCommand, h2h

STUDY = """\
# Norms, on almost nothing.
question: Is RMSNorm as good?
hypothesis: Nothing can be seen in a few steps.
tuning: none
base:
  - model.d_model=8
  - model.num_layers=1
  - data.num_train=200
  - data.num_validation=4
  - data.num_test=4
  - data.batch_size=4
  - data.context_length=8
  - data.tokenizer=char
  - trainer.accelerator=cpu
  - trainer.validate_every=5
  - trainer.log_every=1
  - trainer.max_steps=40
  - trainer.num_samples=0
  - tracking=none
  - probe=none
arms:
  layer_norm: [model/norm=layer_norm]
  rms_norm: [model/norm=rms_norm]
seeds: 2
metric: test/loss
direction: min
baseline: layer_norm
budget: equal_tokens
"""
COMMAND = ("study", "tiny", "--config-dir", "conf")
RUNS = Path("outputs/studies/tiny/runs")


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("conf/study").mkdir(parents=True)
    Path("conf/study/tiny.yaml").write_text(STUDY)


def verdict_of_all(*more: str) -> dict[str, Any]:
    done = h2h(*COMMAND, "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def results() -> dict[str, tuple[str, dict[str, float]]]:
    return {record.id: (record.status, record.metrics["test"]) for record in scan(RUNS)}


def trained_seconds() -> dict[str, str | None]:
    return {record.id: record.timing.finished for record in scan(RUNS)}


def kill_when(path_pattern: str, *more: str) -> None:
    """kill -9 of the whole study, its workers and its runs, once some file is there."""
    process = WarmCommand([*COMMAND, *more], output=Path("output"))
    until(lambda: process.poll() is not None or list(RUNS.glob(path_pattern)))
    assert process.poll() is None
    for number in family(process.pid):
        os.kill(number, signal.SIGKILL)
    process.wait(PATIENCE)


def family(pid: int) -> list[int]:
    import psutil

    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def test_list_shows_the_studies(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "study"]) == 0
    assert "norms_small" in capsys.readouterr().out
    assert main(["list", "study", "--config-dir", "conf"]) == 0
    assert "Norms, on almost nothing." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["norm_small"], "norm_small is not a study: did you mean norms_small?"),
        (["seeds=3"], "h2h study needs a study before seeds=3"),
        (["norms_small", "--shard", "3/2"], "--shard 3/2 is refused: give which share of how many, as --shard 1/2 and"),
        (["norms_small", "--shard", "x"], "--shard x is refused"),
        (["norms_small", "--workers", "0"], "0 is refused: it must be at least 1"),
        (["norms_small", "model.num_layer=3"], "model.num_layer is not a field"),
        (["norms_small", "marginn=3"], "marginn is not a field of the run"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", *arguments]) == 2
    assert sentence in capsys.readouterr().err and not Path("outputs").exists()


@pytest.mark.slow
@pytest.mark.process
def test_a_plan_says_what_it_would_cost_and_trains_nothing() -> None:
    plan = verdict_of_all("--plan")
    assert plan["missing"] == 4 and plan["flops"] > 0 and plan["seconds"] > 0
    assert not RUNS.exists()


@pytest.mark.slow
@pytest.mark.process
def test_a_killed_study_goes_on_and_ends_as_an_undisturbed_one() -> None:
    kill_when("*/checkpoints/last.ckpt")
    until(lambda: all(status != "running" for status, _ in results().values()))
    killed = [status for status, _ in results().values()]  # by the time of the kill the first may have ended
    assert {*killed} <= {"interrupted", "finished"} and killed.count("finished") < 4
    resumed = verdict_of_all()
    after = trained_seconds()
    assert resumed["complete"] and len(after) == 4
    assert verdict_of_all() == resumed and trained_seconds() == after, "nothing is done twice"
    result = results()
    whole = verdict_of_all("output_dir=undisturbed")
    assert [arm["mean"] for arm in whole["arms"]] == [arm["mean"] for arm in resumed["arms"]]
    assert {r.id: (r.status, r.metrics["test"]) for r in scan("undisturbed")} == result


@pytest.mark.slow
@pytest.mark.process
def test_two_studies_at_once_on_one_folder_share_the_runs() -> None:
    processes = [WarmCommand([*COMMAND, "--workers", "2"], output=Path("output")) for _ in range(2)]
    assert [process.wait(PATIENCE) for process in processes] == [0, 0]
    assert all(record.timing.starts == 1 and record.status == "finished" for record in scan(RUNS))
    leases = {path.stem for path in Path("outputs/studies/tiny/leases").iterdir()}
    assert len(results()) == 4 and leases == {*results(), "matching"}


@pytest.mark.slow
@pytest.mark.process
def test_shards_together_are_the_study_and_a_failing_run_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    failing = STUDY.replace("arms:\n", "arms:\n  failing: [trainer.accelerator=gpu]\n")
    Path("conf/study/tiny.yaml").write_text(failing.replace("trainer.max_steps=40", "trainer.max_steps=4"))
    codes = [h2h(*COMMAND, "--worker", "--shard", f"{n}/2").returncode for n in (1, 2)]
    assert codes == [0, 0] and len(results()) == 6
    done = h2h(*COMMAND, "--json")
    message = json.loads(done.stdout)
    assert done.returncode == 1 and message["complete"]
    assert [(arm["arm"], arm["finished"], arm["failures"]) for arm in message["arms"]] == [
        ("failing", 0, 2), ("layer_norm", 2, 0), ("rms_norm", 2, 0),
    ]  # fmt: skip
    assert len(message["verdicts"]) == 2
    assert len(list(Path("outputs/studies/tiny/registrations").iterdir())) == 1, "workers write the design down too"
