"""The states of jobs as SLURM has them, asked for seldom and never waited for: sacct of a busy cluster takes minutes,
or fails."""

from __future__ import annotations

import time
from collections.abc import Mapping
from threading import Thread
from typing import TYPE_CHECKING

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
