"""Runs that agents have begun, as trials; and what a server is given of a sweep's file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.records.record import Progress, RunRecord, RunTiming, Status, WandbLink
from headtohead.records.run_folder import RunFolder
from headtohead.sweeps.agent_runs import AgentMonitor, first_run, for_server
from headtohead.sweeps.read_sweep_file import read_sweep
from headtohead.sweeps.sweep_report import page
from headtohead.wandb_client.registered_sweeps import RegisteredSweep
from sweeps.small_sweeps import WRITTEN, small_sweep, tiny, written_sweep

REGISTERED = RegisteredSweep("me", "headtohead", "s1")


def begun(folder: Path, name: str, status: Status, started: int, *overrides: str, reason: str = "") -> None:
    """A run in the sweep's group, W&B's id its name."""
    config = compose_checked("train", (*tiny(folder), *overrides))
    run = RunFolder.create_at(folder / "sweep-s1" / name)
    record = RunRecord(run.id, status=status, config=config, reason=reason, wandb=WandbLink(id=name))
    record.timing, record.progress = RunTiming(started=f"2026-01-0{started}"), Progress(step=2)
    run.log(Progress(step=2), {"validation/loss": float(started)})
    run.write_record(record)


def noted(agents: AgentMonitor, *names: str) -> None:
    """Note the runs as an agent does."""
    notes = agents.folder / "wandb" / "sweep-s1"
    notes.mkdir(parents=True)
    for name in names:
        (notes / f"config-{name}.yaml").touch()


def test_runs_of_the_agents_here_are_trials_with_what_they_are(tmp_path: Path) -> None:
    sweep = small_sweep(*tiny(tmp_path, without="tracking"))
    agents = AgentMonitor(sweep, REGISTERED, first_run(sweep))
    assert (agents.num_runs, agents.update()) == (4, [])
    begun(tmp_path, "second", "interrupted", 2, "optimizer.lr=1e-05", reason="ended by the agent of sweep s1: ...")
    begun(tmp_path, "first", "finished", 1, "model/norm=rms_norm")
    begun(tmp_path, "elsewhere", "finished", 3)
    noted(agents, "first", "second", "refused")
    assert agents.num_unrecorded() == 1
    plan = agents.now()
    assert [trial.setting.values for trial in plan.trials] == [
        {"optimizer.lr": 0.001, "model/norm": "rms_norm"}, {"optimizer.lr": 1e-05, "model/norm": "layer_norm"},
    ]  # fmt: skip
    assert [(result.status, result.value) for result in plan.outcomes.values()] == [
        ("finished", 1.0),
        ("ended early", 2.0),
    ]
    assert all(standing.is_done for standing in agents.update())
    message = page(plan, "h2h sweep small.yaml --wandb --join me/headtohead/s1")
    assert "h2h train --from-run" in message and "../../sweep-s1/second" in message and "searched by W&amp;B" in message


def test_the_server_is_given_the_file_and_in_its_command_what_stands_beside_it(tmp_path: Path) -> None:
    file = written_sweep(tmp_path, method="random", run_cap=9)
    content = for_server(file, read_sweep(file, ["seed=3"], 2), ["seed=3"], "mine")
    assert content == {
        **WRITTEN, "method": "random", "run_cap": 2, "name": "small",
        "command": ["h2h", "train", "${args_no_hyphens}", "--config-dir", "mine", "seed=3"],
    }  # fmt: skip
    assert yaml.safe_load(file.read_text())["run_cap"] == 9


@pytest.mark.parametrize("method", ["grid", "bayes"])
def test_every_value_is_looked_at_before_the_server_is_asked(tmp_path: Path, method: str) -> None:
    wrong = {"optimizer.lr": {"values": [0.1, "x"]}, "seed": {"values": [1, 2]}}
    sweep = small_sweep(*tiny(tmp_path, without="tracking"), method=method, run_cap=8, parameters=wrong)
    with pytest.raises(ConfigurationError, match="lr=x is refused: it must be a number"):
        first_run(sweep)
    with pytest.raises(ConfigurationError, match="did you mean validation/loss"):
        first_run(
            small_sweep(
                *tiny(tmp_path, without="tracking"), method=method, run_cap=8, metric={"name": "validation/los"}
            )
        )
