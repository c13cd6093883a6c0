"""States of jobs that SLURM may still requeue are not the end of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headtohead.execution.launchers import slurm
from headtohead.execution.launchers.slurm import COMES_BACK, JobStates


class Watcher:
    """Believes, as submitit does, that what has ended stays so, until it is cleared."""

    def __init__(self, *states: str) -> None:
        self._states = list(states)

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        del job_id, mode
        return self._states[0]

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        return self.get_state(job_id, mode) not in ("RUNNING", "PENDING", "UNKNOWN")

    def update_if_long_enough(self, mode: str) -> None:
        """Nothing new."""

    def clear(self) -> None:
        self._states = self._states[1:] or self._states


@pytest.mark.parametrize("state", sorted(COMES_BACK))
def test_a_job_that_slurm_requeues_is_waited_for(state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "RESULT_SECONDS", 0.0)
    paths = SimpleNamespace(result_pickle=tmp_path / "none", stderr=tmp_path / "errors")
    job = cast(Any, SimpleNamespace(job_id="1", paths=paths, watcher=Watcher(state, "UNKNOWN", "PENDING")))
    states = JobStates()
    assert not states.is_over(job) and not states.is_over(job), "the watcher asks again"
    monkeypatch.setattr(slurm, "REQUEUE_SECONDS", 0.0)
    job.watcher = Watcher(state)
    assert states.is_over(job) and f"({state})" in states.sentence(job) and "not requeued" in states.sentence(job)
