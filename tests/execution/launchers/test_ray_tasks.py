"""Commands as tasks of a Ray that is started for them on this machine."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from headtohead.execution.launchers.launcher import Command
from headtohead.execution.launchers.ray_tasks import RayTasks

pytestmark = [pytest.mark.slow, pytest.mark.process]
STOPS_GENTLY = """
import pathlib, signal, sys, time
def end(*_):
    print("kept a checkpoint", flush=True)
    sys.exit(130)
signal.signal(signal.SIGTERM, end)
pathlib.Path({begun!r}).touch()
time.sleep(3600)
"""


def python(program: str, log: Path) -> Command:
    return Command((sys.executable, "-S", "-c", program), log, threads=2)


def test_tasks_run_in_the_folder_of_the_command_and_end_gently_when_they_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    launcher = RayTasks()
    try:
        sentence = "import os, sys; print(os.getcwd(), os.environ['OMP_NUM_THREADS']); sys.exit({})"
        launcher.submit([python(sentence.format(code), tmp_path / "logs" / f"{code}.log") for code in (0, 3)])
        ended = []
        while launcher.is_busy:
            ended += launcher.ended()
            time.sleep(0.05)
        assert {end.command.log.stem: end.code for end in ended} == {"0": 0, "3": 3}
        assert {end.last_words for end in ended} == {f"{tmp_path} 2"}
        gentle = python(STOPS_GENTLY.format(begun=str(tmp_path / "begun")), tmp_path / "logs" / "gentle.log")
        launcher.submit([gentle])
        while not (tmp_path / "begun").exists():
            assert not launcher.ended()
            time.sleep(0.05)
    finally:
        launcher.stop()
    assert gentle.log.read_text() == "kept a checkpoint\n" and not launcher.is_busy
