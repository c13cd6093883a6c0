"""The same command again goes on with the same run."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from headtohead.cli import main
from headtohead.config.compose.composition import compose_checked
from headtohead.execution.single_run import folder_of_run, train_resumable
from headtohead.files.process_liveness import Owner
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from studies.small_studies import TINY
from waiting import until

COMMAND = ["train", *TINY, "trainer.max_steps=150", "trainer.validate_every=50", "--resumable"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def configured(*overrides: str) -> dict:
    return compose_checked("train", [*COMMAND[1:-1], *overrides])


def record() -> RunRecord:
    return RunFolder.open(folder_of_run(configured())).read_record()


def stopper(begun: Callable[[], bool]) -> threading.Thread:
    """A scheduler that wants the machine back as soon as training has begun."""

    def stop() -> None:
        until(begun)
        os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=stop)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_by_the_same_command_and_is_not_trained_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = folder_of_run(configured())
    thread = stopper(lambda: (folder / "metrics.csv").is_file())
    assert main(COMMAND) == 130
    thread.join()
    stopped = record()
    assert stopped.status == "interrupted" and stopped.reason == "stopped by SIGUSR1"
    assert 0 < stopped.progress.step < 150
    assert main(COMMAND) == 0
    assert record().status == "finished" and record().timing.starts == 2 and record().id == stopped.id
    assert RunFolder(folder).metrics()["train/loss"].step == list(range(1, 151))
    written = (folder / "record.json").stat().st_mtime_ns
    capsys.readouterr()
    assert main(COMMAND) == 0 and "finished" in capsys.readouterr().out
    assert (folder / "record.json").stat().st_mtime_ns == written
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.slow
def test_what_slurm_queued_again_does_not_wait_for_the_process_of_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = configured("trainer.max_steps=2")
    run = RunFolder.create_at(folder_of_run(config))
    run.write_record(RunRecord(id=run.id, status="running", seed=0))
    lease = run.path / "leases" / "writer.1"
    lease.write_text(json.dumps(asdict(Owner(1, "0", "another machine", "node-7"))))
    threading.Timer(0.3, os.utime, (lease, (1e9, 1e9))).start()  # its clock is far behind, and it lives
    with pytest.raises(ValueError, match=r"is being written by process 1 on node-7 \(last sign of life .* --take-over"):
        train_resumable(config)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert train_resumable(config).status == "finished"
