"""The batch script of the page on many machines, as it stands, with a program that is interrupted once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_cluster import Cluster
from waiting import until

PAGE = Path(__file__).parents[3] / "docs" / "many_machines.md"
H2H = """
import pathlib, signal, sys, time
seen = pathlib.Path({seen!r})
starts = len(seen.read_text().splitlines()) if seen.exists() else 0
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(130))
with seen.open("a") as file:
    print(*sys.argv[1:], file=file)
if not starts:
    time.sleep(3600)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the tests' cluster reads /proc")
@pytest.mark.process
def test_a_run_that_is_interrupted_is_queued_again_and_one_that_ends_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (script,) = re.findall(r"```bash\n(#!/bin/bash\n.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "job.sh").write_text(script)
    cluster, seen = Cluster(tmp_path / "cluster"), tmp_path / "seen"
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    h2h = cluster.folder / "bin" / "h2h"
    h2h.write_text(f"#!{sys.executable} -S\n" + H2H.format(seen=str(seen)))
    h2h.chmod(0o755)
    try:
        subprocess.run(["sbatch", "job.sh"], cwd=tmp_path, check=True, capture_output=True)
        until(seen.exists)
        (job,) = cluster.jobs
        job.warn()
        until(lambda: job.state == "COMPLETED")
        typed = seen.read_text().splitlines()
        assert len(typed) == job.starts == 2 and typed[0] == typed[1] and typed[0].startswith("train trainer=fsdp")
    finally:
        cluster.close()
