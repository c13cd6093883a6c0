"""Failures of clusters: nodes fail, jobs outgrow their time and memory, and accounting is slow or down."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from execution.launchers.patient_commands import all_ended, waits_once
from headtohead.execution.launchers import slurm
from headtohead.execution.launchers.launcher import Command, EndedCommand
from headtohead.execution.launchers.slurm import Slurm
from slurm_cluster import Cluster, Job
from waiting import until

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the tests' cluster reads /proc"),
    pytest.mark.process,
]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster whose users' launchers wait less for what may still come."""
    monkeypatch.setattr(slurm, "RESULT_SECONDS", 0.5)
    monkeypatch.setattr(slurm, "REQUEUE_SECONDS", 6.0)
    made = Cluster(tmp_path / "cluster")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


def started(launcher: Slurm, folder: Path, *codes: int) -> list[Command]:
    """Submit commands that wait once, and return when all of them do."""
    commands = [waits_once(folder, code) for code in codes]
    launcher.submit(commands)
    until(lambda: all((folder / f"seen{code}").exists() for code in codes))
    return commands


def test_a_job_whose_node_fails_is_requeued_and_its_worker_counted_once(cluster: Cluster, tmp_path: Path) -> None:
    launcher = Slurm()
    (command,) = started(launcher, tmp_path, 3)
    (job,) = cluster.jobs
    assert "#SBATCH --requeue\n" in job.script, "a cluster may have it that nothing is requeued"
    job.fail_node()
    (end,) = all_ended(launcher)
    assert (end.code, job.starts) == (3, 2), command.log.read_text()
    assert command.log.read_text().splitlines() == ["went on with None 3"], "no time for a checkpoint"


@pytest.mark.parametrize(
    ("fail", "parameters", "message"),
    [
        (Job.run_out_of_memory, {}, r"OUT_OF_MEMORY.*launcher\.mem_gb=NUMBER asks for more"),
        (lambda job: job.run_out_of_time(0.2), {}, r"TIMEOUT.*launcher\.signal_delay_s=SECONDS warns it earlier"),
        (Job.fail_node, {"no-requeue": True}, r"NODE_FAIL.*its node failed, and it was not requeued"),
    ],
    ids=["out of memory", "time limit", "node fail"],
)
def test_a_job_that_does_not_come_back_leaves_its_reason_and_what_to_type_and_stops_no_other(
    cluster: Cluster,
    tmp_path: Path,
    fail: Callable[[Job], None],
    parameters: dict[str, bool],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm, "REQUEUE_SECONDS", 0.5)
    launcher = Slurm(additional_parameters=parameters)
    lost, other = started(launcher, tmp_path, 0, 3)
    fail(cluster.jobs[0])
    ends: list[EndedCommand] = []
    while not ends:
        ends = launcher.ended()
        time.sleep(0.05)
    assert [end.command for end in ends] == [lost] and ends[0].code == 1 and launcher.is_busy
    words = ends[0].last_words
    assert re.search(message, words) and "resumed by other workers, or by the same command" in words, words
    cluster.jobs[1].preempt(grace_seconds=1.0)
    (end,) = all_ended(launcher)
    assert end.command == other and end.code == 3


def test_slow_accounting_holds_nobody_up(cluster: Cluster, tmp_path: Path) -> None:
    cluster.slow_down(5.0)
    launcher = Slurm()
    started(launcher, tmp_path, 0, 3)
    begun = time.monotonic()
    assert launcher.ended() == [] and launcher.ended() == []
    assert time.monotonic() - begun < 2, "nobody waits for the answer"
    for job in cluster.jobs:
        job.preempt(grace_seconds=1.0)
    assert {end.code for end in all_ended(launcher)} == {0, 3}


def test_jobs_are_stopped_by_one_call_and_asked_after_together(cluster: Cluster, tmp_path: Path) -> None:
    launcher = Slurm()
    started(launcher, tmp_path, 0, 3, 4)
    before = cluster.questions
    launcher.stop()
    assert [job.state for job in cluster.jobs] == ["CANCELLED"] * 3 and cluster.questions - before <= 4


def test_accounting_that_is_down_ends_no_job(cluster: Cluster, tmp_path: Path) -> None:
    cluster.lose_accounting()
    launcher = Slurm()
    started(launcher, tmp_path, 0)
    for _ in range(10):
        assert launcher.ended() == []
        time.sleep(0.05)
    cluster.restore_accounting()
    cluster.jobs[0].preempt(grace_seconds=1.0)
    assert [end.code for end in all_ended(launcher)] == [0]
