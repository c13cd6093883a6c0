"""Jobs of submitit as processes of this machine: the same way as to a cluster, without one."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headtohead.ranges import Amount, Count
from headtohead.studying.launching.jobs import Jobs

if TYPE_CHECKING:
    from submitit import Job


class SubmititLocal(Jobs):
    """For trying out what a launcher on a cluster does, running out of time included."""

    cluster = "local"

    def __init__(self, *, timeout_min: Amount = 240, cpus_per_task: Count = 1, gpus_per_node: Amount = 0) -> None:
        super().__init__(cpus_per_task=cpus_per_task)
        self._parameters = {"timeout_min": timeout_min, "gpus_per_node": gpus_per_node}

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self._parameters

    def cancel(self, job: Job[int]) -> None:
        """submitit's own way kills a command after one second, which may be too short for a checkpoint."""
        os.kill(int(job.job_id), signal.SIGTERM)
