"""Define the launchers' interface, and the launcher for processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from headtohead.components.processor import THREAD_VARIABLES
from headtohead.execution.gpus import gpus
from headtohead.execution.launchers.worker_forks import ForkedWorker, WorkerForks
from headtohead.ranges import Count

_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Command:
    """A program to be run."""

    arguments: tuple[str, ...]
    log: Path
    """The file that its output goes to."""
    threads: int | None = None
    """The threads of the processor; None leaves it to the program."""
    devices: int = 1
    """The most that one of its runs takes."""


@dataclass(frozen=True)
class EndedCommand:
    """A command that has ended, well or not; a negative code is the signal that killed it."""

    command: Command
    code: int

    @property
    def last_words(self) -> str:
        log = self.command.log
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.is_file() else []
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")

    def error(self, who: str = "a worker") -> str | None:
        """Return the sentence on a command that ended with an error, and where its output is; None for any other."""
        return f"{who} ended with code {self.code} ({self.command.log}): {self.last_words}" if self.code else None


def errors_of(ended: Sequence[EndedCommand], who: str = "a worker") -> list[str]:
    """Return the sentences on those that ended with an error."""
    return [error for one in ended if (error := one.error(who)) is not None]


class Launcher(ABC):
    """Runs commands somewhere. Whoever submits polls `ended` until nothing is left."""

    is_parent: ClassVar[bool] = False
    """Whether commands are children of this process, and may end with it."""

    runs_per_device: int | Literal["auto"] | None = None
    """The runs that stand side by side on each device; auto: as many as its memory holds; None: workers say how many
    there are in all."""

    claims: str | None = None
    """The address of the PostgreSQL that holds the claims to runs; None for leases in their folder."""

    @property
    def devices(self) -> int:
        """Return among how many devices `runs_per_device` counts: GPUs, or the processor where there are none."""
        return 1

    @abstractmethod
    def threads(self, workers: int) -> int:
        """Return the threads of the processor for each run, with so many commands at once."""

    def check_here(self) -> None:  # noqa: B027  most launchers start what they start from anywhere
        """Raise ConfigurationError where nothing can be started from this machine, before anything is planned."""

    @abstractmethod
    def submit(self, commands: Sequence[Command]) -> None:
        """Hand over commands; they start at once or when there is room."""

    @abstractmethod
    def ended(self) -> list[EndedCommand]:
        """Return those that ended since the last call; starts what waited for them."""

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Return whether some command still runs or waits."""

    @abstractmethod
    def stop(self) -> None:
        """Ask what runs to end, forget what waits, and come back when all have ended."""


class LocalProcesses(Launcher):
    """Processes of this machine, so many at once; 1 means one after another, None all at once. They take turns at its
    GPUs: of those that run at once, each has one of its own as far as they go. Commands with runs over several devices
    see all of them, and share them out run by run."""

    is_parent = True

    def __init__(
        self,
        at_once: Count | None = None,
        runs_per_device: Count | Literal["auto"] | None = None,
        claims: str | None = None,
    ) -> None:
        self._at_once, self.runs_per_device, self.claims = at_once, runs_per_device, claims
        self._gpus = gpus()
        self._waiting: list[Command] = []
        self._running: dict[int, tuple[Command, subprocess.Popen[bytes] | ForkedWorker]] = {}
        """The running commands by slot, as many as run at once."""
        self.forks: WorkerForks | None = None
        """The process that commands are forked from; None starts a program for each."""

    @property
    def devices(self) -> int:
        return max(1, len(self._gpus))

    def threads(self, workers: int) -> int:
        return max(1, processors() // min(workers, self._at_once or workers))

    def submit(self, commands: Sequence[Command]) -> None:
        self._waiting += commands
        self._fill()

    def ended(self) -> list[EndedCommand]:
        codes = {index: process.poll() for index, (_, process) in self._running.items()}
        over = [EndedCommand(self._running.pop(index)[0], code) for index, code in codes.items() if code is not None]
        self._fill()
        return over

    @property
    def is_busy(self) -> bool:
        return bool(self._running or self._waiting)

    def stop(self) -> None:
        self._waiting.clear()
        processes = [process for _, process in self._running.values()]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()
        if self.forks is not None:
            self.forks.close()

    def _fill(self) -> None:
        while self._waiting and (self._at_once is None or len(self._running) < self._at_once):
            command = self._waiting.pop(0)
            slot = next(number for number in range(len(self._running) + 1) if number not in self._running)
            is_divided = len(self._gpus) > 1 and command.devices == 1
            own = {"CUDA_VISIBLE_DEVICES": self._gpus[slot % len(self._gpus)]} if is_divided else {}
            command.log.parent.mkdir(parents=True, exist_ok=True)
            command.log.unlink(missing_ok=True)  # an older one has the last words of another process
            variables = {**environment(command.threads), **own}
            forked = None if self.forks is None else self.forks.start(command.log, variables, command.threads)
            self._running[slot] = command, forked or _program(command, variables)


def _program(command: Command, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with command.log.open("ab") as log:
        return subprocess.Popen(
            command.arguments,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(variables),
            start_new_session=True,  # Ctrl-C is for whoever started them
        )


def processors() -> int:
    """Those of this machine that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def environment(threads: int | None) -> dict[str, str]:
    """Return the environment of a command on so many threads."""
    counts = {} if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads))
    return {**os.environ, **counts}
