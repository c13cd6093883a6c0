"""W&B's real `wandb sweep` and `wandb agent`, and `h2h sweep --wandb`, with the tests' server: what arrives is true."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import psutil
import pytest
import yaml

from headtohead.cli import main
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import scan
from waiting import PATIENCE, until
from wandb_agents import LONG, SHORT, message, started, written
from wandb_server import ServedRun, WandbServer

SWEEPS = Path(__file__).parents[2] / "sweeps"


def records(folder: Path) -> dict[int, RunRecord]:
    """Return the records by the number of steps that they were given."""
    return {record.config["trainer"]["max_steps"]: record for record in scan(folder)}


def falls_behind(run: ServedRun) -> bool:
    """Return what Hyperband would say of the long run after its second validation."""
    return bool(run.raw_config) and run.config["trainer"]["max_steps"] == LONG and len(run.rows("validation/loss")) > 1


@pytest.mark.slow
@pytest.mark.process
def test_sweep_files_that_ship_are_taken_as_they_are(tmp_path: Path, server: WandbServer) -> None:
    files = [str(file) for file in sorted(SWEEPS.glob("*.yaml"))]
    for file in files:
        assert started(tmp_path, server, "wandb", "sweep", file).wait(PATIENCE) == 0, message(tmp_path, "wandb")
    assert "iolation" not in message(tmp_path, "wandb")
    sweeps = server.sweeps.by_id.values()
    assert {sweep.project for sweep in sweeps} == {"headtohead"}
    methods = [yaml.safe_load(Path(file).read_text())["method"] for file in files]
    assert [sweep.config["method"] for sweep in sweeps] == methods and {"grid", "random", "bayes"} <= set(methods)


@pytest.mark.slow
@pytest.mark.process
def test_two_agents_share_a_sweep_its_runs_arrive_as_they_are_and_one_that_falls_behind_ends_well(
    tmp_path: Path, server: WandbServer
) -> None:
    server.sweeps.stops = lambda run: len(server.sweeps.only.options) == 2 and falls_behind(run)
    nested = {"lr": {"value": 1e-05}, "betas": {"value": [0.9, 0.95]}}
    parameters = {
        "trainer.max_steps": {"values": [LONG, SHORT]}, "optimizer": {"parameters": nested},
        "schedule": {"value": "wsd"}, "choices.precision": {"value": "bf16-mixed"},
        "model/norm": {"value": "rms_norm"}, "trainer.gradient_clip": {"value": None},
    }  # fmt: skip
    assert started(tmp_path, server, "wandb", "sweep", str(written(tmp_path, parameters))).wait(PATIENCE) == 0
    sweep = server.sweeps.only
    assert f"wandb agent me/headtohead/{sweep.id}" in message(tmp_path, "wandb")
    agents = [started(tmp_path, server, "wandb", "agent", f"me/headtohead/{sweep.id}") for _ in range(2)]
    assert [agent.wait(PATIENCE) for agent in agents] == [0, 0], message(tmp_path, "wandb")
    assert [len(runs) for runs in sweep.by_agent.values()] == [1, 1], message(tmp_path, "wandb")

    result = records(tmp_path / "outputs" / f"sweep-{sweep.id}")
    assert {steps: record.status for steps, record in result.items()} == {LONG: "interrupted", SHORT: "finished"}, (
        message(tmp_path, "wandb")
    )
    for steps, record in result.items():
        assert record.wandb.id in sweep.options
        assert_arrived_as_it_is(server.runs[record.wandb.id], record, steps, sweep.id)

    behind, whole = result[LONG], result[SHORT]
    assert (whole.status, server.runs[str(whole.wandb.id)].steps("validation/loss")) == ("finished", [4, 8])
    assert (behind.status, behind.progress.step > 0) == ("interrupted", True)
    assert f"stopped by the agent of sweep {sweep.id}" in (behind.reason or "")
    assert behind.path is not None and (behind.path / "checkpoints" / "last.ckpt").is_file()
    assert server.runs[str(behind.wandb.id)].summary["status"] == "interrupted"


def assert_arrived_as_it_is(run: ServedRun, record: RunRecord, steps: int, sweep: str) -> None:
    config = run.config
    assert (run.first["sweep"], run.first["groupName"], run.exit_code) == (sweep, f"sweep-{sweep}", 0)
    for name in ("optimizer", "schedule", "precision", "trainer", "choices"):
        assert config[name] == {key: value for key, value in record.config[name].items() if value != {}}, name
    assert (config["optimizer"]["lr"], config["optimizer"]["betas"]) == (1e-05, [0.9, 0.95])
    assert config["optimizer"]["_target_"] and config["schedule"]["_target_"]
    assert config["trainer"]["gradient_clip"] is None
    assert config["choices"]["schedule"] == "wsd"
    swept = {"trainer.max_steps": steps, "choices.precision": "bf16-mixed", "model/norm": "rms_norm"}
    assert {name: config[name] for name in swept} == swept


@pytest.mark.slow
@pytest.mark.process
def test_a_sweep_of_the_server_is_begun_interrupted_and_gone_on_with_by_one_command(
    tmp_path: Path, server: WandbServer
) -> None:
    file = written(tmp_path, {"trainer.max_steps": {"values": [LONG, SHORT]}})
    begun = started(tmp_path, server, "h2h", "sweep", str(file), "seed=3", "--wandb")
    until(lambda: begun.poll() is not None or any(run.rows("validation/loss") for run in server.runs.values()))
    begun.send_signal(signal.SIGINT)
    assert begun.wait(PATIENCE) == 130, message(tmp_path, "h2h")
    sweep = server.sweeps.only
    folder = tmp_path / "outputs" / f"sweep-{sweep.id}"
    (left,) = records(folder).values()
    assert (left.status, left.seed, server.runs[str(left.wandb.id)].exit_code) == ("interrupted", 3, 0)
    until(lambda: not still_running(tmp_path))

    again = ("--wandb", "--join", f"me/headtohead/{sweep.id}")
    assert f"h2h sweep {file} seed=3 {' '.join(again)} resumes the sweep" in message(tmp_path, "h2h")
    assert started(tmp_path, server, "h2h", "sweep", str(file), "seed=3", *again).wait(PATIENCE) == 0
    assert (records(folder)[SHORT].status, sweep.state) == ("finished", "FINISHED")
    table = message(tmp_path, "h2h")
    assert "ended early" in table and "the best: " in table and "h2h train --from-run outputs/" in table
    (page,) = (tmp_path / "outputs" / "sweeps").glob("*/sweep.html")
    assert "trainer.max_steps" in page.read_text()


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(("state", "steps"), [("STOPPED", SHORT), ("CANCELED", LONG)])
def test_a_sweep_that_somebody_stops_on_its_page_ends_here_with_what_it_has(
    tmp_path: Path, server: WandbServer, state: str, steps: int
) -> None:
    file = written(tmp_path, {"trainer.max_steps": {"values": [steps, 9, 10]}})
    begun = started(tmp_path, server, "h2h", "sweep", str(file), "--wandb")
    until(lambda: begun.poll() is not None or any(run.rows("validation/loss") for run in server.runs.values()))
    server.sweeps.only.state = state
    code = begun.wait(PATIENCE)
    said_of_it = message(tmp_path, "h2h")
    (left,) = records(tmp_path / "outputs" / f"sweep-{server.sweeps.only.id}").values()
    assert left.config["trainer"]["max_steps"] == steps
    if state == "STOPPED":
        assert (code, left.status) == (0, "finished"), said_of_it
        assert "the best: " in said_of_it
    else:
        assert left.status == "interrupted", said_of_it
    until(lambda: not still_running(tmp_path))


def still_running(home: Path) -> list[psutil.Process]:
    """Return the processes whose working folder this is."""
    return [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(home)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--wandb"], "a sweep of W&B needs a login .* run `wandb login` or set WANDB_API_KEY; without --wandb"),
        (["--join", "me/headtohead/s1"], "is for a sweep of W&B's server: give --wandb too"),
    ],
)
def test_without_login_a_sweep_of_the_server_is_refused_with_the_way_out(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, {"seed": {"values": [1, 2]}})
    assert main(["sweep", str(file), *arguments]) == 2
    assert_said(message, capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["optimizer.rl=1"], "did you mean|rl is not a field of optimizer"),
        (["tracking=offline"], "tracking=offline is refused with --wandb, since its server would see no run"),
        (["--join", "s1"], "--join s1 is not a sweep: write ENTITY/PROJECT/SWEEP"),
    ],
)
def test_what_no_run_can_be_is_refused_before_the_server_hears_of_it(
    tmp_path: Path, server: WandbServer, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, {"seed": {"values": [1, 2]}})
    assert main(["sweep", str(file), "--wandb", *arguments]) == 2
    assert_said(message, capsys)
    assert not server.sweeps.by_id


@pytest.mark.process
def test_a_server_that_does_not_take_the_sweep_is_told_of_with_the_way_out(
    tmp_path: Path, server: WandbServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.behaviour = "refuses"
    file = written(tmp_path, {"seed": {"values": [1, 2]}})
    assert main(["sweep", str(file), "--wandb"]) == 2
    assert_said("did not take the sweep .* `wandb login` changes the key; without --wandb the same file runs", capsys)


def assert_said(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    err = capsys.readouterr().err
    assert re.search(pattern, err), err
