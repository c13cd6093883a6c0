"""Workers forked from a process that has imported what runs need and has computed nothing.

A command that starts workers on its own machine has imported most of that by the time it has a plan. It forks one
process then, which waits; each worker is forked from that one, with the plan as it is, and costs milliseconds instead
of seconds. Whatever the command computes afterwards, no worker inherits.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from headtohead.execution.session_priority import keep_priority

Work = Callable[[int | None, int, int], int]
"""A function of the threads of each run, the process that a worker ends with and the command that started it, which
returns an exit code."""
_POLL_SECONDS = 0.05
_SECONDS = 1.0
"""The time between two looks at whether the command is still there."""
_TASKS = Path("/proc/self/task")
_FAILED = 1


def threads_here() -> int | None:
    """Return the number of threads of this process, those of libraries among them; None where forks are not safe."""
    return len(list(_TASKS.iterdir())) if sys.platform == "linux" and _TASKS.is_dir() else None


class WorkerForks:
    """The process that workers are forked from, as the command that forked it sees it."""

    def __init__(self, work: Work) -> None:
        self._line, theirs = multiprocessing.Pipe()
        self._num_requests = 0
        command = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if not self._pid:
            _never_return(lambda: _serve(work, theirs, self._line, command))
        theirs.close()

    def start(self, log: Path, variables: Mapping[str, str], threads: int | None) -> ForkedWorker | None:
        """Return a worker in a session of its own, whose output goes to a file; None where the process has died,
        or the machine forks no more."""
        try:
            pid = self.request("start", str(log), dict(variables), threads)
        except (EOFError, OSError):
            return None
        return None if pid is None else ForkedWorker(self, pid)

    def request(self, *words: object) -> int | None:
        """Return the process's answer. Where Ctrl-C came before an earlier one was read, that one is passed over."""
        self._num_requests += 1
        self._line.send((self._num_requests, *words))
        number, answer = self._line.recv()
        while number != self._num_requests:
            number, answer = self._line.recv()
        return None if answer is None else int(answer)

    def close(self) -> None:
        """End the process, once; workers that still run save a checkpoint and end."""
        if not self._line.closed:
            self._line.close()
            os.waitpid(self._pid, 0)


@dataclass
class ForkedWorker:
    """A forked worker answers like a `subprocess.Popen`."""

    forks: WorkerForks
    pid: int
    _code: int | None = field(default=None, repr=False)

    def poll(self) -> int | None:
        """Return the exit code; the negative number of the signal that killed it; None while it runs."""
        if self._code is None:
            try:
                self._code = self.forks.request("poll", self.pid)
            except (EOFError, OSError):
                self._code = -signal.SIGKILL  # with the process that it was forked from, and ends with
        return self._code

    def wait(self, timeout: float = math.inf) -> int:
        """Raises TimeoutExpired where it still runs after so many seconds."""
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout)
            time.sleep(_POLL_SECONDS)
        return code

    def terminate(self) -> None:
        """Ask it to end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        if self.poll() is None:
            with suppress(EOFError, OSError):
                self.forks.request("signal", self.pid, number)


class _Server:
    """Answers requests until the command is gone."""

    def __init__(self, work: Work, line: Connection, command: int) -> None:
        self._work, self._line, self._command = work, line, command
        self._codes: dict[int, int] = {}
        """The exit codes of workers that have ended, which the system tells once."""

    def start(self, log: str, variables: Mapping[str, str], threads: int | None) -> int | None:
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError:  # too many processes, or too little memory: those that run go on
            return None
        if not pid:
            self._line.close()
            _never_return(lambda: _begin(self._work, Path(log), variables, threads, server, self._command))
        return pid

    def poll(self, pid: int) -> int | None:
        if pid not in self._codes:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                return None
            self._codes[pid] = os.waitstatus_to_exitcode(status)
        return self._codes[pid]

    def signal(self, pid: int, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _serve(work: Work, line: Connection, commands_end: Connection, command: int) -> int:
    commands_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command, which passes it on
    gc.freeze()  # what is there lives to the end, and no run need go through it
    server = _Server(work, line, command)
    answers: dict[str, Callable[..., int | None]] = {
        "start": server.start, "poll": server.poll, "signal": server.signal,
    }  # fmt: skip
    with suppress(EOFError, OSError):
        while os.getppid() == command:
            if line.poll(_SECONDS):
                number, name, *arguments = line.recv()
                line.send((number, answers[name](*arguments)))
    return 0  # workers see that their parent has gone


def _begin(work: Work, log: Path, variables: Mapping[str, str], threads: int | None, server: int, command: int) -> int:
    os.setsid()
    with Path(os.devnull).open("rb") as nothing, log.open("ab") as output:
        for file, number in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(file.fileno(), number)
    keep_priority()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ |= variables
    return work(threads, server, command)


def _never_return(call: Callable[[], int]) -> NoReturn:
    """End this process with what the call returns, without the exit handlers of the one it was forked from."""
    code = _FAILED
    try:
        code = call()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else _FAILED
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
