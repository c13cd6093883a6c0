"""Commands of this project in processes that have its modules already: each is forked, within milliseconds, from one
that has imported them, and what it starts by command is forked from it in turn. A fresh interpreter costs seconds of
processor time, which says nothing about what the command does; where that is the question, tests start one."""

from __future__ import annotations

import atexit
import inspect
import os
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from multiprocessing import forkserver, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from headtohead.cli.worker_options import PROGRAM
from waiting import PATIENCE

MODULES = [
    "warm_commands",
    "headtohead.api",
    "headtohead.cli.run_summary",
    "headtohead.cli.study",
    "headtohead.cli.sweep",
    "headtohead.cli.train",
    "headtohead.training.run",
    "torch._dynamo",
]
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


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
            "environment": {**(os.environ if environment is None else environment), "OMP_NUM_THREADS": "1"},
            "first": first,
        }
        words = self.args[1:]
        command = [sys.executable, *([str(program), *words] if program else ["-m", "headtohead", *words])]
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
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

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
    with TemporaryDirectory() as place:
        output, errors = Path(place, "output"), Path(place, "errors")
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
    server = forkserver._forkserver  # type: ignore[attr-defined]
    server._stop()  # one that others may have started
    get_context("forkserver").set_forkserver_preload(MODULES)
    limit = os.environ.get("OMP_THREAD_LIMIT")
    os.environ["OMP_THREAD_LIMIT"] = "1"
    try:
        server.ensure_running()
    finally:
        del os.environ["OMP_THREAD_LIMIT"]
        if limit is not None:
            os.environ["OMP_THREAD_LIMIT"] = limit


def _run(command: Sequence[str], job: Mapping[str, Any]) -> NoReturn:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # of which multiprocessing's server knows nothing
    for number, name in ((0, os.devnull), *zip((1, 2), job["files"], strict=True)):
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(handle, number)
        os.close(handle)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.detach()  # the temporary folders of the server are not this process's to remove
    setattr(subprocess, "Popen", _Forked)  # noqa: B010
    exec(job["first"], {})
    _finish(_call_of(command))


class _Forked(subprocess.Popen):  # type: ignore[type-arg]
    """Starts a command of ours by a fork of this process, and any other as ever."""

    def _execute_child(self, *given: Any) -> None:
        start = super()._execute_child  # type: ignore[misc]
        named = inspect.signature(start).bind(*given).arguments
        words = named["args"]
        call = None if isinstance(words, (str, bytes)) else _call_of([os.fspath(word) for word in words])
        if call is None:
            start(*given)
            return
        self.pid = os.fork()
        if not self.pid:
            with suppress(BaseException):
                _prepare(named)
                _finish(call)
            os._exit(1)
        self._child_created = True
        self._close_pipe_fds(*(named[name] for name in PIPES))  # type: ignore[attr-defined]


def _prepare(named: Mapping[str, Any]) -> None:
    """Become what a new interpreter would be that was started so."""
    for number in range(1, signal.NSIG):
        with suppress(OSError, ValueError):
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in enumerate(("p2cread", "c2pwrite", "errwrite")):
        if named[name] != -1:
            os.dup2(named[name], number)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if number > 2:  # the numbers stay taken, as objects of this process will close them
            os.dup2(nothing, number)
    if named["cwd"] is not None:
        os.chdir(named["cwd"])
    if named["env"] is not None:
        os.environ.clear()
        os.environ.update(named["env"])
    if named["start_new_session"]:
        os.setsid()


def _call_of(command: Sequence[str]) -> Callable[[], object] | None:
    """Return what a command does, where Python runs `h2h`, W&B's client or a file; None for any other."""
    program, words = Path(command[0]).name, [word for word in command[1:2] if word != "-u"] + list(command[2:])
    if program == "h2h":
        return lambda: _h2h(words)
    if command[0] != sys.executable or not words:
        return None
    if words[:2] == ["-m", "headtohead"] or words[:2] == ["-c", PROGRAM[-1]]:
        return lambda: _h2h(words[2:])
    if words[:2] == ["-m", "wandb"]:
        return lambda: _file([str(Path(find_spec("wandb").origin).with_name("__main__.py")), *words[2:]])
    if Path(words[0]).name == "h2h":
        return lambda: _h2h(words[1:])
    return (lambda: _file(words)) if words[0].endswith(".py") else None


def _h2h(arguments: Sequence[str]) -> None:
    from headtohead.cli import main

    sys.argv = [str(Path(sys.executable).parent / "h2h"), *arguments]
    sys.exit(main())


def _file(command: Sequence[str]) -> None:
    import __main__

    sys.argv = list(command)
    __main__.__dict__.update(__file__=command[0], __name__="__main__", __spec__=None)
    exec(compile(Path(command[0]).read_text(encoding="utf-8"), command[0], "exec"), __main__.__dict__)


def _finish(call: Callable[[], object] | None) -> NoReturn:
    """Call it, and end as an interpreter ends, with all that waits for the exit."""
    assert call is not None
    code = 0
    try:
        call()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
        code = 1
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
