"""`h2h sweep`, as it is typed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import yaml

from headtohead.cli import main
from headtohead.records.run_folder import scan
from studies.small_studies import TINY
from waiting import until
from warm_commands import WarmCommand

SWEEP = {
    "command": ["h2h", "train", "${args_no_hyphens}"],
    "method": "grid",
    "parameters": {"optimizer": {"parameters": {"lr": {"values": [1e-05, 0.001]}}}},
}
RUNS = Path("outputs/sweeps/rates/runs")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rates.yaml").write_text(yaml.safe_dump(SWEEP))


def test_a_plan_is_shown_and_nothing_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "rates.yaml", *TINY, "--plan"]) == 0
    assert "2 trials, every combination" in capsys.readouterr().out
    assert not Path("outputs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rate.yaml"], "rate.yaml is not a file"),
        (["optimizer.lr=1"], "needs a file before optimizer.lr=1"),
        (["rates.yaml", "optimizer.lr=1"], "optimizer.lr is swept"),
        (["rates.yaml", "--run-cap", "0"], "it must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.process
def test_a_killed_sweep_goes_on_where_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["rates.yaml", *TINY]
    process = WarmCommand(["sweep", *arguments], output=Path("output"))
    until(lambda: RUNS.is_dir() and any(record.status == "finished" for record in scan(RUNS)))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert main(["sweep", *arguments, "--workers", "2"]) == 0
    records = scan(RUNS)
    assert [record.status for record in records] == ["finished"] * 2
    assert {record.config["optimizer"]["lr"] for record in records} == {1e-05, 0.001}
    assert 1 in {record.timing.starts for record in records}
    assert (RUNS.parent / "sweep.html").is_file()
    assert "again: h2h train" in capfd.readouterr().err
