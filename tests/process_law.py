"""Notes the processes that a test starts, so that the quick tests can be held to start none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

FREE = ("git", "ldconfig", "uname", "lscpu", "ninja")
"""Programs of a few milliseconds, which records and libraries ask about the machine."""
_listeners: list[list[str]] = []


@contextmanager
def noted_processes() -> Iterator[list[str]]:
    """Give a list that grows by the name of every program or Python process started within the block."""
    started: list[str] = []
    _listeners.append(started)
    try:
        yield started
    finally:
        _listeners[:] = [one for one in _listeners if one is not started]


def _note(program: str) -> None:
    if Path(program).name not in FREE:
        for started in _listeners:
            started.append(program)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and _listeners:
        executable, command = arguments[0], arguments[1]
        _note(str(executable or (command if isinstance(command, (str, bytes)) else command[0])))
    elif event in ("os.fork", "os.forkpty", "os.posix_spawn"):
        _note(event)


def _start(process: BaseProcess) -> None:
    _note("a process of multiprocessing")  # neither spawn nor the forkserver raises an audit event
    _started(process)


_started = BaseProcess.start
BaseProcess.start = _start  # type: ignore[method-assign]
sys.addaudithook(_audit)
