"""Values that an agent writes on a command line are read as in its sweep's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headtohead.config.compose.composition import compose_checked
from headtohead.sweeps.agent_overrides import as_written
from headtohead.wandb_client.registered_sweeps import stop_message, sweep_values, unlocked, with_swept

VALUES: dict[str, Any] = {
    "choices.schedule": "linear",
    "model/norm": "rms_norm",
    "optimizer": {"lr": 1e-05, "betas": [0.9, 0.95]},
    "trainer": {"gradient_clip": None, "progress_bar": False},
    "tags": ["a", None],
    "seed": 3,
}


def message(values: dict[str, Any]) -> list[str]:
    """Return the values as `${args_no_hyphens}` has them."""
    return [f"{key}={value}" for key, value in values.items()]


def test_null_truth_lists_and_nested_parameters_become_overrides() -> None:
    assert as_written(["data=copy", *message(VALUES)], VALUES, "s1") == [
        "data=copy", "schedule=linear", "model/norm=rms_norm", "optimizer.lr=1e-05", "optimizer.betas=[0.9, 0.95]",
        "trainer.gradient_clip=null", "trainer.progress_bar=false", "tags=[a, null]", "seed=3", "group=sweep-s1",
    ]  # fmt: skip


def test_what_was_typed_beside_them_stays_and_a_group_of_ones_own_counts() -> None:
    typed = ["notes=None", "group=mine"]
    assert as_written(typed, {"notes": "other"}, "s1") == typed


def test_a_run_is_what_the_file_says() -> None:
    without_null_tag = {**VALUES, "tags": ["a"]}
    config = compose_checked("train", as_written(message(without_null_tag), without_null_tag, "s1"))
    assert (config["optimizer"]["lr"], config["optimizer"]["betas"]) == (1e-05, [0.9, 0.95])
    assert config["trainer"]["gradient_clip"] is None and config["trainer"]["progress_bar"] is False
    assert (config["choices"]["schedule"], config["choices"]["model/norm"]) == ("linear", "rms_norm")


def test_the_configuration_keeps_its_shape_and_gains_the_swept_values_where_nothing_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "values.yaml"
    swept = {"schedule": "linear", "optimizer.lr": 1e-05, "notes": None}
    content = {"wandb_version": 1, **{name: {"value": value} for name, value in swept.items()}}
    file.write_text(yaml.safe_dump(content))
    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", str(file))
    assert sweep_values() == swept
    nested = {"schedule": {"warmup": 0.1}, "optimizer": {"lr": 1e-05}, "notes": None}
    assert with_swept(nested) == {**nested, "optimizer.lr": 1e-05}
    with unlocked():
        assert sweep_values() == {}
    assert sweep_values() == swept


def test_only_the_agent_of_a_sweep_ends_runs_for_its_sake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_SWEEP_ID", raising=False)
    assert stop_message("SIGTERM") is None and sweep_values() == {}
    monkeypatch.setenv("WANDB_SWEEP_ID", "s1")
    assert stop_message("SIGINT") is None
    assert "agent of sweep s1" in (stop_message("SIGTERM") or "")
