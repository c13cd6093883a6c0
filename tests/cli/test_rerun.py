"""A run's record is enough to run it again."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headtohead.cli import main
from headtohead.config.run_id import run_id
from headtohead.records.run_folder import find_runs
from studies.small_studies import TINY


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
