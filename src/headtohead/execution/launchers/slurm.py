"""Jobs of a SLURM cluster (https://slurm.schedmd.com), written, submitted and requeued by submitit.

Their states are asked for seldom and never waited for, since sacct of a busy cluster takes minutes, or fails.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from threading import Thread
from typing import TYPE_CHECKING

from typing_extensions import override

from headtohead.execution.launchers.submitit_jobs import SubmititJobs
from headtohead.field_group import FieldGroup
from headtohead.ranges import Amount, Count, Positive

if TYPE_CHECKING:
    from submitit import Job

RESULT_SECONDS, REQUEUE_SECONDS = 15.0, 60.0
"""The time in which a job that ended may still show its result, on a slow disk, and one that SLURM requeues return."""
COMES_BACK = frozenset({"NODE_FAIL", "BOOT_FAIL", "PREEMPTED"})
"""The states that a job has for a while before SLURM requeues it."""
_PAUSE_SECONDS = 0.5
_SENTENCES: Mapping[str, str] = {
    "OUT_OF_MEMORY": "it used more memory than it had asked for: launcher.mem_gb=NUMBER asks for more",
    "NODE_FAIL": "its node failed, and it was not requeued",
    "BOOT_FAIL": "its node did not start, and it was not requeued",
    "PREEMPTED": "it made room for other jobs, and was not requeued",
    "TIMEOUT": "its time was up before it had saved a checkpoint: launcher.signal_delay_s=SECONDS warns it earlier, "
    "launcher.timeout_min=MINUTES gives it more time",
    "CANCELLED": "somebody cancelled it",
    "DEADLINE": "the cluster's deadline for it had passed",
}
_GO_ON = "what it was doing is resumed by other workers, or by the same command"
_NO_REQUEUE = {"requeue", "no_requeue", "no-requeue"}
"""The parameters by which a user says it; otherwise jobs are requeued when their node fails, also where a cluster's
usual is that they are not."""
_OF_ANY_CLUSTER = ("timeout_min", "cpus_per_task", "gpus_per_node", "mem_gb")


@dataclass(frozen=True)
class Allocation(FieldGroup):
    """The resources of a job, and the part of the cluster that gives them."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    timeout_min: Count = 240
    cpus_per_task: Count = 2
    gpus_per_node: Amount | None = None
    mem_gb: Positive | None = None
    constraint: str | None = None
    exclude: str | None = None

    def parameters(self) -> Mapping[str, object]:
        """Return the fields by the names that submitit's AutoExecutor has for them."""
        return {name if name in _OF_ANY_CLUSTER else f"slurm_{name}": value for name, value in asdict(self).items()}


class Slurm(SubmititJobs):
    """A worker is one job. Before its time is up, or when it is preempted, it keeps checkpoints and is queued again."""

    cluster = "slurm"

    def __init__(
        self,
        *,
        allocation: Allocation = Allocation(),
        comment: str | None = None,
        setup: tuple[str, ...] = (),
        signal_delay_s: Amount = 120,
        max_num_timeout: Amount = 20,
        array_parallelism: Count = 256,
        additional_parameters: Mapping[str, object] | None = None,
        claims: str | None = None,
    ) -> None:
        self.claims = claims
        super().__init__(cpus_per_task=allocation.cpus_per_task)
        self._max_num_timeout = max_num_timeout
        self._states = JobStates()
        own = dict(additional_parameters or {})
        parameters = {
            **allocation.parameters(),
            "slurm_comment": comment,
            "slurm_setup": list(setup) or None,
            "slurm_signal_delay_s": signal_delay_s,
            "slurm_array_parallelism": array_parallelism,
            "slurm_additional_parameters": own if _NO_REQUEUE & own.keys() else {"requeue": True, **own},
        }
        self._parameters = {name: value for name, value in parameters.items() if value is not None}

    @property
    def parameters(self) -> Mapping[str, object]:
        return {"name": "headtohead", "nodes": 1, "tasks_per_node": 1, **self._parameters}

    @override
    def is_over(self, job: Job[int], *, at_once: bool = False) -> bool:
        return self._states.is_over(job, at_once=at_once)

    @override
    def trouble(self, job: Job[int]) -> str | None:
        return super().trouble(job) if job.paths.result_pickle.exists() else self._states.sentence(job)

    @override
    def cancel(self, jobs: Sequence[Job[int]]) -> None:
        """One call for all: a controller that serves thousands of jobs answers each call after seconds."""
        subprocess.call(["scancel", *(job.job_id for job in jobs)])

    @property
    def executor_options(self) -> Mapping[str, object]:
        return {"slurm_max_num_timeout": self._max_num_timeout}


class JobStates:
    """The states of the jobs of one launcher, refreshed by a thread."""

    def __init__(self) -> None:
        self._refresh: Thread | None = None
        self._last_question = float("-inf")
        self._over_since: dict[str, float] = {}

    def is_over(self, job: Job[int], *, at_once: bool = False) -> bool:
        """Return whether the job has its result, or ended without one as far as SLURM has said."""
        if job.paths.result_pickle.exists():
            return True
        self._ask(job, at_once=at_once)
        state = self._state(job)
        if not job.watcher.is_done(job.job_id, mode="cache"):
            if state != "UNKNOWN":
                self._over_since.pop(job.job_id, None)
            return False
        since = self._over_since.setdefault(job.job_id, time.monotonic())
        patience = REQUEUE_SECONDS if state in COMES_BACK else RESULT_SECONDS
        if at_once or time.monotonic() - since >= patience:
            return True
        if state in COMES_BACK:
            job.watcher.clear()  # it believes that what has ended stays so
        return False

    def sentence(self, job: Job[int]) -> str:
        """Return why a job without a result ended, and where SLURM's own messages are."""
        state = self._state(job)
        why = _SENTENCES.get(state, f"its state is {state}")
        return f"job {job.job_id} ended without a result ({state}): {why}; {_GO_ON}. See {job.paths.stderr}"

    def _state(self, job: Job[int]) -> str:
        """CANCELLED is followed by whoever did it."""
        return (job.watcher.get_state(job.job_id, mode="cache").split() or ["UNKNOWN"])[0]

    def _ask(self, job: Job[int], *, at_once: bool) -> None:
        """Ask for the jobs of all launchers together, unless a question is still without an answer."""
        if (
            self._refresh is not None and self._refresh.is_alive()
        ) or time.monotonic() - self._last_question < _PAUSE_SECONDS:
            return
        mode, self._last_question = "force" if at_once else "standard", time.monotonic()
        self._refresh = Thread(target=job.watcher.update_if_long_enough, args=(mode,), daemon=True)
        self._refresh.start()
