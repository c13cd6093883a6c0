"""A run's record is enough to run it again."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headtohead.cli import main
from headtohead.config.compose.composition import compose_checked
from headtohead.config.run_id import run_id
from headtohead.records.run_folder import find_runs
from studies.small_studies import TINY


@pytest.mark.parametrize("command", ["train", "inspect", "doctor", "plan --on cpu"])
def test_every_command_about_one_run_reads_the_settings_of_a_recorded_one(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = compose_checked("train", ["model/norm=rms_norm", f"output_dir={tmp_path}/outputs", "name=first"])
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    recorded = ["--from-run", str(tmp_path), "model.num_layers=3", "--cfg", "job"]
    assert main([*command.split(), *recorded]) == 0
    expected = {**config, "model": {**config["model"], "num_layers": 3}}
    assert {**yaml.safe_load(capsys.readouterr().out), "name": "first"} == expected


@pytest.mark.slow
def test_a_run_from_a_record_has_the_same_configuration_and_the_same_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert main(["train", *TINY, "model.dropout=0.1"]) == 0
    first = find_runs("outputs")[0]
    assert main(["train", "--from-run", str(first.path)]) == 0
    second = next(run for run in find_runs("outputs") if run.id != first.id)
    assert second.read_record().config == first.read_record().config
    assert run_id(second.read_record().config) == run_id(first.read_record().config)
    losses = [run.metrics()["train/loss"].value for run in (first, second)]
    assert len(losses[0]) == 4 and losses[0] == losses[1]
    assert second.read_record().metrics == first.read_record().metrics
    capsys.readouterr()
    assert main(["train", "--from-run", str(first.path), "--cfg", "job", "--resolve"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == first.read_record().config
