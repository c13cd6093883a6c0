"""`h2h sweep FILE` and `wandb agent` make the same runs of the same file, in whatever order its command is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from headtohead.config.compose.composition import compose_checked
from headtohead.sweeps.agent_overrides import as_written
from headtohead.sweeps.read_sweep_file import read_sweep
from headtohead.sweeps.sweep_plan import Sweeper
from sweeps.small_sweeps import small_sweep, tiny

SWEEPS = Path(__file__).parents[2] / "sweeps"
ARGUMENTS = "${args_no_hyphens}"
COMMANDS = [
    [ARGUMENTS],
    ["optimizer.lr=0.5", ARGUMENTS],
    ["seed=7", "notes=x", ARGUMENTS],
    [ARGUMENTS, "seed=7"],
    [ARGUMENTS, "optimizer.lr=0.5", "seed=7"],
    ["schedule=noam", ARGUMENTS, "seed=7"],
    ["seed=7", ARGUMENTS, "seed=8", "seed=9"],
]
PARAMETERS: dict[str, Any] = {
    "optimizer": {"parameters": {"lr": {"values": [1e-05, 0.001]}, "betas": {"value": [0.9, 0.95]}}},
    "choices.schedule": {"values": ["linear", "wsd"]},
    "seed": {"value": 3},
    "notes": {"value": "a, b = 'c' [d], it's so"},
    "tags": {"value": ["x, y", "z=1", "ü"]},
    "trainer.patience": {"value": None},
}


def on_the_server(parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what W&B's server draws from a grid: nested parameters as one value."""
    names, choices = [], []
    for name, entry in parameters.items():
        inner = entry.get("parameters")
        names.append(name)
        choices.append(list(on_the_server(inner)) if inner else entry.get("values", [entry.get("value")]))
    for values in product(*choices):
        yield dict(zip(names, values, strict=True))


def of_an_agent(command: list[str], values: dict[str, Any]) -> dict[str, Any]:
    """The configuration of the run that W&B's agent starts, its words made by W&B's own code."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    words = create_sweep_command(command)
    made = create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})
    filled = [part for word in words for part in (made["args_no_hyphens"] if word == ARGUMENTS else [word])]
    assert filled[:2] == ["h2h", "train"]
    return compose_checked("train", as_written(filled[2:], values, "s1"))


def check(content: Mapping[str, Any], plan: Any) -> None:
    theirs = [of_an_agent(content["command"], values) for values in on_the_server(content["parameters"])]
    ours = [trial.run.config for trial in plan.trials]
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert {**mine, "name": "", "group": ""} == {**other, "name": "", "group": ""}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_trial_has_the_same_configuration_both_ways(command: list[str], tmp_path: Path) -> None:
    where = tiny(tmp_path, without="optimizer")
    content = {"command": ["h2h", "train", *where, *command], "parameters": PARAMETERS}
    plan = Sweeper(small_sweep(**content)).plan
    check(content, plan)
    config = plan.trials[0].run.config if plan.trials[0].run else {}
    assert config["tags"] == PARAMETERS["tags"]["value"] and config["trainer"]["patience"] is None
    assert config["notes"] == PARAMETERS["notes"]["value"]


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(SWEEPS.glob("*.yaml")), ids=lambda file: file.stem)
def test_a_file_that_ships_has_the_same_configurations_both_ways(file: Path) -> None:
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    if content["method"] == "grid":
        check(content, Sweeper(read_sweep(file)).plan)
        return
    plan = Sweeper(read_sweep(file, run_cap=4)).plan
    for trial in plan.trials:
        values = {**plan.sweep.constants, **trial.setting.values}
        assert trial.run is not None
        other = of_an_agent(content["command"], values)
        assert {**trial.run.config, "name": "", "group": ""} == {**other, "name": "", "group": ""}


def test_what_is_set_twice_is_told_with_what_counts() -> None:
    message = small_sweep(
        "model.num_layers=2", command=["h2h", "train", "seed=7", ARGUMENTS], parameters=PARAMETERS
    ).duplicates
    assert message == ["seed is set 2 times, by seed=7 and parameters.seed: parameters.seed comes last and counts"]
    message = small_sweep("seed=1", command=["h2h", "train", ARGUMENTS, "seed=7"], parameters=PARAMETERS).duplicates
    assert message == ["seed is set 3 times, by parameters.seed and seed=7 and seed=1: seed=1 comes last and counts"]
