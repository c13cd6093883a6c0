"""Commands as jobs of the real submitit, in processes of this machine."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from execution.launchers.patient_commands import all_ended, waits_once
from headtohead.execution.launchers.submitit_jobs import SubmititLocal
from waiting import until


def tasks() -> list[psutil.Process]:
    """submitit's own processes below this one, the innermost, which run the commands."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if "submitit.core._submit" in " ".join(process.cmdline())]


@pytest.mark.process
def test_a_job_whose_time_is_up_goes_on_in_the_next_and_its_command_has_its_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOUR", "blue")
    launcher = SubmititLocal()
    launcher.submit([waits_once(tmp_path)])
    until((tmp_path / "seen0").exists)
    (task,) = tasks()
    task.send_signal(signal.SIGUSR2)
    (end,) = all_ended(launcher)
    assert end.code == 0
    assert end.command.log.read_text() == "kept a checkpoint\nwent on with blue 3\n"


@pytest.mark.process
def test_stop_lets_commands_end_gently(tmp_path: Path) -> None:
    launcher = SubmititLocal()
    launcher.submit([waits_once(tmp_path)])
    until((tmp_path / "seen0").exists)
    launcher.stop()
    assert (tmp_path / "logs" / "0.log").read_text() == "kept a checkpoint\n" and not tasks()
