"""Jobs of a SLURM cluster (https://slurm.schedmd.com), written, submitted and requeued by submitit."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from headtohead.execution.launchers.job_states import JobStates
from headtohead.execution.launchers.submitit_jobs import SubmititJobs
from headtohead.field_group import FieldGroup
from headtohead.ranges import Amount, Count, Positive

_NO_REQUEUE = {"requeue", "no_requeue", "no-requeue"}
"""The parameters by which a user says it; otherwise jobs are requeued when their node fails, also where a cluster's
usual is that they are not."""
_OF_ANY_CLUSTER = ("timeout_min", "cpus_per_task", "gpus_per_node", "mem_gb")

if TYPE_CHECKING:
    from submitit import Job


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
