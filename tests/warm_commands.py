"""Commands of this project in processes that have its modules already: each is forked, within milliseconds, from one
that has imported them, composed a run and done nothing else, and so is what it starts by command. A fresh interpreter
costs seconds of processor time, which say nothing about what the command does; where they are the question, tests start
one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing import forkserver, get_context, set_start_method
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import psutil

from nursery import SHOW_STACKS, begin
from waiting import PATIENCE

MODULES = [
    "warm_commands",
    "headtohead.api",
    "headtohead.cli.study",
    "headtohead.cli.sweep",
    "headtohead.cli.train",
    "headtohead.comparison.tables.results_table",
    "headtohead.comparison.tables.run_table",
    "headtohead.training.run",
    "torch._dynamo.backends.debugging",
    "torch._inductor.compile_fx",
    "composed_once",
]
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"}
"""Both: of a limit below the number oneDNN knows nothing, and computes the share of one thread, or waits for the other.
Commands are told the same, who would else ask for as many threads as there are processors."""
SECONDS_TO_SHOW = 1.0
"""The time that each process has to itself to write, since they share a file."""


class WarmCommand:
    """A running `h2h`, which answers like a `subprocess.Popen`."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        output: Path,
        errors: Path | None = None,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        first: str = "",
        program: Path | None = None,
    ) -> None:
        """`output` is added to, with the errors if they have no file of their own. `first` is a program that
        the process runs before the command, and `program` a file that it runs in place of `h2h`."""
        self.args = ["h2h", *map(str, arguments)]
        _start_server()
        job = {
            "files": (str(output.absolute()), str((errors or output).absolute())),
            "folder": str((folder or Path.cwd()).absolute()),
            "environment": {**(os.environ if environment is None else environment), **_ONE_THREAD},
            "first": first,
        }
        words = self.args[1:]
        command = [sys.executable, *([str(program), *words] if program else ["-m", "headtohead", *words])]
        self._errors = errors or output
        self._process: BaseProcess = get_context("forkserver").Process(target=_run, args=(command, job))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float = PATIENCE) -> int:
        """Raises TimeoutExpired; where patience has run out, with where the threads of its processes stand."""
        self._process.join(timeout)
        if self.returncode is None:
            error = subprocess.TimeoutExpired(self.args, timeout)
            if timeout >= PATIENCE:
                error.add_note(self.stacks())
            raise error
        return self.returncode

    def stacks(self) -> str:
        """Return its errors, behind which every thread of every process of it has written where it stands."""
        command = psutil.Process(self.pid)
        for process in [command, *command.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(SHOW_STACKS)
                time.sleep(SECONDS_TO_SHOW)
        return self._errors.read_text(errors="replace")

    def started(self) -> list[psutil.Process]:
        """Return the running commands that it started."""
        commands = []
        for nursery in psutil.Process(self.pid).children():
            with suppress(psutil.NoSuchProcess):  # a program that looks at the machine, and is done
                commands += nursery.children()
        return commands

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def h2h(
    *arguments: str | Path,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    first: str = "",
    program: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with what it said."""
    with TemporaryDirectory() as scratch:
        output, errors = Path(scratch, "output"), Path(scratch, "errors")
        command = WarmCommand(
            arguments,
            output=output,
            errors=errors,
            folder=folder,
            environment=environment,
            first=first,
            program=program,
        )
        code = command.wait()
        return subprocess.CompletedProcess(command.args, code, output.read_text(), errors.read_text())


@cache
def _start_server() -> None:
    """Start multiprocessing's server, whose processes compute in one thread whatever they are told: the threads of
    OpenMP do not come along where a process is forked, which then waits for them for ever."""
    server: Any = vars(forkserver)["_forkserver"]
    server._stop()  # one that others may have started
    get_context("forkserver").set_forkserver_preload(MODULES)
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        server.ensure_running()
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


def _run(command: Sequence[str], job: Mapping[str, Any]) -> NoReturn:
    os.setsid()
    set_start_method(None, force=True)  # else loaders would start their processes by a server too, from nothing
    files = [os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644) for name in (os.devnull, *job["files"])]
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.detach()  # the temporary folders of the server are not this process's to remove
    begin(command, files, job["environment"], job["folder"], job["first"])
