"""Commands as jobs of submitit (https://github.com/facebookincubator/submitit), whatever the cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar

from headtohead.config.errors import ConfigurationError
from headtohead.execution.launchers.launcher import Command, EndedCommand, Launcher, environment
from headtohead.ranges import Amount, Count

if TYPE_CHECKING:
    from submitit import AutoExecutor, Job
    from submitit.helpers import DelayedSubmission

FOLDER = "submitit"
"""The folder of submitit's own files, beside the logs of the commands."""
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 1.0
_DOOMED_SECONDS = 600.0


class SubmititJobs(Launcher):
    """Each command is one job of one task; the cluster says when it starts."""

    cluster: ClassVar[str]

    def __init__(self, *, cpus_per_task: int) -> None:
        self._cpus = cpus_per_task
        self._jobs: list[tuple[Command, Job[int]]] = []

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """Return the parameters of every job, as submitit's AutoExecutor takes them."""

    @property
    def executor_options(self) -> Mapping[str, object]:
        return {}

    def needs(self, devices: int) -> dict[str, int]:
        """Return what the widest run asks for beyond the parameters: GPUs, where jobs have some."""
        gpus = self.parameters.get("gpus_per_node") or 0
        return {"gpus_per_node": devices} if 0 < gpus < devices else {}

    def threads(self, workers: int) -> int:
        del workers
        return self._cpus

    def check_here(self) -> None:
        self.executor(Path.cwd())

    def executor(self, folder: Path) -> AutoExecutor:
        try:
            import submitit
        except ImportError:
            raise ConfigurationError(
                f"launcher={self.cluster} needs the package submitit: pip install 'headtohead[slurm]'"
            ) from None
        try:
            made = submitit.AutoExecutor(folder, cluster=self.cluster, **self.executor_options)
        except RuntimeError as error:  # no srun on this machine
            raise ConfigurationError(
                f"launcher={self.cluster} starts jobs from a machine of the cluster: {error} Log in there, or use "
                "launcher=submitit_local, which does the same with processes of this machine"
            ) from None
        made.update_parameters(**self.parameters)
        return made

    def submit(self, commands: Sequence[Command]) -> None:
        if not commands:
            return
        executor = self.executor(commands[0].log.parent.absolute() / FOLDER)
        executor.update_parameters(**self.needs(max(command.devices for command in commands)))
        try:
            jobs = executor.submit_array([_SubmititCommand(command) for command in commands])
        except RuntimeError as error:  # submitit's words for what sbatch said
            message = " ".join(str(error).split())
            raise ConfigurationError(f"launcher={self.cluster}: the jobs were rejected: {message}") from None
        self._jobs += zip(commands, jobs, strict=True)

    def ended(self) -> list[EndedCommand]:
        done = [(command, job) for command, job in self._jobs if self.is_over(job)]
        self._jobs = [pair for pair in self._jobs if pair not in done]
        return [EndedCommand(command, self._code(command, job)) for command, job in done]

    def is_over(self, job: Job[int], *, at_once: bool = False) -> bool:
        """Return whether the job has ended for good; `at_once` asks the cluster again, however soon after the last
        time."""
        return job.done(force_check=at_once)

    def trouble(self, job: Job[int]) -> str | None:
        """Return why a job ended without the code of its command, or None where it has one."""
        trouble = job.exception()
        return None if trouble is None else str(trouble)

    @property
    def is_busy(self) -> bool:
        return bool(self._jobs)

    def stop(self) -> None:
        jobs = [job for _, job in self._jobs]
        if jobs:
            self.cancel(jobs)
        end = time.monotonic() + _PATIENCE_SECONDS
        while any(not self.is_over(job, at_once=True) for job in jobs) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        self._jobs.clear()

    @abstractmethod
    def cancel(self, jobs: Sequence[Job[int]]) -> None:
        """End jobs: whoever runs them is told by SIGTERM."""

    def _code(self, command: Command, job: Job[int]) -> int:
        """Return that of the command; a job that ended without one leaves its reason in the log."""
        if (trouble := self.trouble(job)) is None:
            count: int = job.result()
            return count
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with command.log.open("a", encoding="utf-8") as log:
            log.write(f"{' '.join(trouble.split())}\n")
        return 1


class SubmititLocal(SubmititJobs):
    """This launcher tries out locally what a launcher on a cluster does, including timeouts."""

    cluster = "local"

    def __init__(
        self,
        *,
        timeout_min: Amount = 240,
        cpus_per_task: Count = 1,
        gpus_per_node: Amount = 0,
        claims: str | None = None,
    ) -> None:
        self.claims = claims
        super().__init__(cpus_per_task=cpus_per_task)
        self._parameters = {"timeout_min": timeout_min, "gpus_per_node": gpus_per_node}

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self._parameters

    def cancel(self, jobs: Sequence[Job[int]]) -> None:
        """Cancel the jobs ourselves: submitit kills a command after one second, which may be too short for a
        checkpoint."""
        for job in jobs:
            with suppress(ProcessLookupError):
                os.kill(int(job.job_id), signal.SIGTERM)


class _SubmititCommand:
    """A command is pickled here, run there by submitit, and handed back to the queue when its time is up.

    A scheduler that takes a job back sends SIGTERM or a user signal to all its processes. Our commands end on either
    with a checkpoint kept; what runs them here has to wait for that.
    """

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
        from submitit.helpers import DelayedSubmission

        if self._pid is not None:
            self._ask(signal.SIGTERM, None)
            _waited(self._pid)
        return DelayedSubmission(_SubmititCommand(self._command))

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
