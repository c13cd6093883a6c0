"""Commands as processes of this machine."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from headtohead.studying.launcher import Command, Ended, LocalProcesses


def python(program: str, log: Path, threads: int | None = None) -> Command:
    return Command((sys.executable, "-S", "-c", program), log, threads)


def all_ended(launcher: LocalProcesses) -> list[Ended]:
    found: list[Ended] = []
    while launcher.is_busy:
        found += launcher.ended()
        time.sleep(0.01)
    return found


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


def test_stop_ends_what_runs_and_forgets_what_waits(tmp_path: Path) -> None:
    launcher = LocalProcesses(at_once=1)
    launcher.submit([python("import time; time.sleep(60)", tmp_path / f"{n}.log") for n in range(2)])
    before = time.monotonic()
    launcher.stop()
    assert not launcher.is_busy and time.monotonic() - before < 20 and not (tmp_path / "1.log").exists()
