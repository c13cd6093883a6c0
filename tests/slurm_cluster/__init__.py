"""A SLURM of one machine for the tests: sbatch, srun, scancel, scontrol and sacct, as submitit calls them.

Jobs are processes of this machine. What a real cluster does to them is done by `Job.warn` and `Job.preempt`: signals
go to every process of a job, and what is requeued runs its batch script again. What it does not know is refused.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from slurm_cluster.commands import Job

COMMANDS = ("sbatch", "srun", "scancel", "scontrol", "sacct")


class Cluster:
    """`environment` is what a user of it has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir(parents=True)
        (folder / "jobs").mkdir()
        for name in COMMANDS:
            program = programs / name
            code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
            code += f"from slurm_cluster.commands import run; sys.exit(run({name!r}, sys.argv[1:]))\n"
            program.write_text(f"#!{sys.executable} -S\n{code}")
            program.chmod(0o755)
        self.environment = {"SLURM_CLUSTER": str(folder), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    @property
    def jobs(self) -> list[Job]:
        return [Job(path) for path in sorted((self.folder / "jobs").iterdir())]

    def close(self) -> None:
        for job in self.jobs:
            job.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
