"""Processes that have this project's modules and have done nothing else: beside each command stays one, of which the
commands that it starts are forked. They are children of that process, which ends with the command it stays beside."""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import inspect
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import torch
from lightning_fabric.utilities.rank_zero import _get_rank, rank_zero_only

from headtohead.execution.launchers.worker_commands import PROGRAM

PR_SET_PDEATHSIG = 1
KILLED = signal.SIGKILL
"""The way in which a process ended whose nursery was killed with it."""
SHOW_STACKS = signal.SIGQUIT
"""Has a command write where its threads are to its errors."""
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def begin(
    command: Sequence[str], files: Sequence[int], environment: Mapping[str, str], folder: str, first: str = ""
) -> NoReturn:
    """Become the process of a command, beside one that stays as it is for the commands that this one starts."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(1)  # as many as OpenMP may start here, whatever its libraries take for their own number
    os.chdir(folder)
    faulthandler.register(SHOW_STACKS)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # of which multiprocessing's server knows nothing
    rank_zero_only.rank = _get_rank() or 0  # type: ignore[attr-defined]  # which Lightning reads when it is imported
    setattr(subprocess, "Popen", WarmPopen)  # noqa: B010
    WarmPopen.server = _leave_nursery()
    exec(first, {})
    _finish(_call_of(command))


def _leave_nursery() -> str:
    """Fork a process that does nothing but fork commands, and return its address."""
    address, parent = f"\0warm-commands-{os.getpid()}", os.getpid()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen()
    if os.fork():
        listener.close()
        return address
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wake, woken = socket.socketpair()
    woken.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno())
    commands: dict[int, socket.socket] = {}
    while os.getppid() == parent:
        for ready in select.select([listener, wake], [], [])[0]:
            if ready is wake:
                wake.recv(1000)
            else:
                line = listener.accept()[0]
                request, files, *_ = socket.recv_fds(line, 1 << 20, 3)
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    for number in (signal.SIGCHLD, signal.SIGINT):
                        signal.signal(number, signal.SIG_DFL)
                    for one in (listener, wake, woken, line, *commands.values()):
                        one.close()
                    _begin_requested(json.loads(request), files)
                for file in files:
                    os.close(file)
                line.sendall(b"%d\n" % pid)
                commands[pid] = line
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with suppress(OSError):  # who requested it may be gone
                    commands.pop(ended[0]).sendall(b"%d\n" % ended[1])
    os._exit(0)


def _begin_requested(request: Mapping[str, Any], files: Sequence[int]) -> NoReturn:
    if request["group"] == "session":
        os.setsid()
    elif request["group"] is not None:
        os.setpgid(0, request["group"])
    words = list(request["words"])
    if "--parent" in words:
        words[words.index("--parent") + 1] = str(os.getppid())
    begin(words, files, request["environment"], request["folder"])


class WarmPopen(subprocess.Popen):  # type: ignore[type-arg]
    """Starts a command of ours in a fork, and any other as ever."""

    server = ""

    def _execute_child(self, *arguments: Any) -> None:
        start = super()._execute_child  # type: ignore[misc]
        named = inspect.signature(start).bind(*arguments).arguments
        words = named["args"]
        words = [os.fsdecode(word) for word in ([words] if isinstance(words, str | bytes) else words)]
        if _call_of(words) is None:
            start(*arguments)
            return
        group = named.get("process_group", -1)
        request = {
            "words": words,
            "environment": dict(os.environ if named["env"] is None else named["env"]),
            "folder": str(named["cwd"] or Path.cwd()),
            "group": "session" if named["start_new_session"] else None if group == -1 else group,
        }
        ends = (named[name] for name in ("p2cread", "c2pwrite", "errwrite"))
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.connect(self.server)
        files = [number if end == -1 else end for number, end in enumerate(ends)]
        socket.send_fds(self._line, [json.dumps(request).encode()], files)
        self.pid = int(self._line.recv(100))
        self._child_created = True
        self._close_pipe_fds(*(named[name] for name in PIPES))  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """Return the process and how it ended, as the nursery says it, whose child it is."""
        if not hasattr(self, "_line"):
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        if wait_flags & os.WNOHANG and not select.select([self._line], [], [], 0)[0]:
            return 0, 0
        return self.pid, int(self._line.recv(100) or KILLED)

    def _internal_poll(self, *arguments: Any, **named: Any) -> int | None:
        if not hasattr(self, "_line"):
            return super()._internal_poll(*arguments, **named)  # type: ignore[misc, no-any-return]
        if self.returncode is None and (ended := self._try_wait(os.WNOHANG))[0]:
            self._handle_exitstatus(ended[1])  # type: ignore[attr-defined]
        return self.returncode


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
