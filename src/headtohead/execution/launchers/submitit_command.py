"""A command as a job of submitit: pickled here, run there, and handed back to the queue when its time is up.

A scheduler that takes a job back sends SIGTERM or a user signal to all its processes. Our commands end on either with a
checkpoint kept; what runs them here has to wait for that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from submitit.helpers import DelayedSubmission

from headtohead.execution.launchers.launcher import Command, environment

_DOOMED_SECONDS = 600.0


class SubmititCommand:
    """A submitit command is what submitit calls on the node, and asks for a checkpoint."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._pid: int | None = None
        self._requested = False

    def __call__(self) -> int:
        self._requested = False
        signal.signal(signal.SIGTERM, self._ask)
        log = Path(self._command.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            process = subprocess.Popen(
                self._command.arguments,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment(self._command.threads),
            )
        self._pid = process.pid
        process.returncode = code = _waited(process.pid)
        self._pid = None
        if self._requested and os.environ.get("SUBMITIT_EXECUTOR") == "slurm":
            # SLURM ends this job in a moment, and queues it again where that was preemption: an answer now would say
            # that there is nothing to resume.
            time.sleep(_DOOMED_SECONDS)
        return code

    def checkpoint(self) -> DelayedSubmission:
        """Called by submitit inside its handler of the signal; what it gives is run when the job comes back."""
        if self._pid is not None:
            self._ask(signal.SIGTERM, None)
            _waited(self._pid)
        return DelayedSubmission(SubmititCommand(self._command))

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._requested = True
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)


def _waited(pid: int) -> int:
    """Return the exit code. Not Popen.wait, whose lock a signal's handler would wait for in vain."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return 0
