"""Real runs of a cluster: taken away while they train, queued again, resumed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headtohead.records.run_folder import find_runs
from slurm_cluster import Cluster
from studies.small_studies import TINY
from waiting import PATIENCE, until
from warm_commands import WarmCommand

STEPS = 400


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the tests' cluster reads /proc")
@pytest.mark.process
def test_a_run_on_slurm_whose_job_is_taken_back_goes_on_in_the_requeued_job(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster")
    options = (f"trainer.max_steps={STEPS}", "trainer.validate_every=100", "launcher=slurm", "launcher.cpus_per_task=1")
    environment = {**os.environ, **cluster.environment, "HEADTOHEAD_CACHE": str(tmp_path / "cache")}
    command = ["train", *TINY, *options]
    try:
        conductor = WarmCommand(command, output=tmp_path / "said", folder=tmp_path, environment=environment)
        outputs = tmp_path / "outputs"
        until(lambda: any(run.metrics_file.path.exists() for run in find_runs(outputs)))
        (job,) = cluster.jobs
        job.warn()
        assert conductor.wait(PATIENCE) == 0, (tmp_path / "said").read_text()
        (run,) = find_runs(outputs)
        record = run.read_record()
        assert record.status == "finished" and record.timing.starts == 2 and job.starts == 2
        assert run.metrics()["train/loss"].step == list(range(1, STEPS + 1))
        assert "1 of 1 finished" in (tmp_path / "said").read_text()
    finally:
        cluster.close()
