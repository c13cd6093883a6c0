"""Commands as processes of this machine."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from headtohead.execution.launchers.launcher import Command, EndedCommand, LocalProcesses


def python(program: str, log: Path, threads: int | None = None) -> Command:
    return Command((sys.executable, "-S", "-c", program), log, threads)


def all_ended(launcher: LocalProcesses) -> list[EndedCommand]:
    result: list[EndedCommand] = []
    while launcher.is_busy:
        result += launcher.ended()
        time.sleep(0.01)
    return result


@pytest.mark.process
def test_one_after_another_and_the_failure_of_one_stops_no_other(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    programs = [
        f"open({str(trace)!r}, 'a').write('{n}'); print('end of', {n}); raise SystemExit({n % 2})" for n in range(4)
    ]
    launcher = LocalProcesses(at_once=1)
    launcher.submit([python(program, tmp_path / "logs" / f"{n}.log") for n, program in enumerate(programs)])
    ended = all_ended(launcher)
    assert trace.read_text() == "0123"
    assert [(end.code, end.last_words) for end in ended] == [(n % 2, f"end of {n}") for n in range(4)]


@pytest.mark.process
def test_several_at_once_each_with_its_threads(tmp_path: Path) -> None:
    meet = (
        "import os, pathlib, time; here = pathlib.Path({0!r}); (here / {1!r}).touch()\n"
        "while not (here / {2!r}).exists(): time.sleep(0.01)\n"
        "print(os.environ['OMP_NUM_THREADS'])"
    )
    launcher = LocalProcesses(at_once=2)
    pairs = (("a", "b"), ("b", "a"))
    launcher.submit([python(meet.format(str(tmp_path), *pair), tmp_path / f"{pair[0]}.log", 3) for pair in pairs])
    assert [end.last_words for end in all_ended(launcher)] == ["3", "3"]


@pytest.mark.process
def test_those_that_run_at_once_have_a_gpu_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"

    def message(number: int, at_once: int | None = None) -> list[str]:
        launcher = LocalProcesses(at_once)
        launcher.submit([python(sentence, tmp_path / f"{n}.log") for n in range(number)])
        return sorted(end.last_words for end in all_ended(launcher))

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 5")
    assert message(3) == ["2", "2", "5"] and message(3, at_once=1) == ["2"] * 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert message(2) == ["0", "0"], "a single one is shared"


@pytest.mark.process
def test_stop_ends_what_runs_and_forgets_what_waits(tmp_path: Path) -> None:
    launcher = LocalProcesses(at_once=1)
    launcher.submit([python("import time; time.sleep(3600)", tmp_path / f"{n}.log") for n in range(2)])
    before = time.monotonic()
    launcher.stop()
    assert not launcher.is_busy and time.monotonic() - before < 60 and not (tmp_path / "1.log").exists()
