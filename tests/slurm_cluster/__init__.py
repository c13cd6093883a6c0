"""A SLURM of one machine for the tests: sbatch, srun, scancel, scontrol and sacct, as submitit calls them.

Jobs are processes of this machine. What a real cluster does to them is done by methods of `Job`: warn, preempt,
run_out_of_time, run_out_of_memory and fail_node. Signals go to every process of a job, and what is requeued runs its
batch script again. `Cluster.slow_down` and `Cluster.lose_accounting` are what its accounting does on bad days. What it
does not know is refused.
"""

from __future__ import annotations

import os
import shutil
import sys
from itertools import count
from pathlib import Path

from slurm_cluster.commands import Job

_LAST = count(11, 1000)
COMMANDS = ("sbatch", "srun", "scancel", "scontrol", "sacct")


class Cluster:
    """`environment` is what a user of it has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir(parents=True)
        (folder / "jobs").mkdir()
        (folder / "last").write_text(str(next(_LAST)))  # submitit remembers jobs by their number
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

    @property
    def questions(self) -> int:
        """Return how often sacct was called."""
        file = self.folder / "questions"
        return len(file.read_text().splitlines()) if file.is_file() else 0

    def slow_down(self, seconds: float) -> None:
        """Let sacct take so long from now on."""
        (self.folder / "slow").write_text(str(seconds))

    def lose_accounting(self) -> None:
        """Let sacct fail from now on, as it does while its database is down."""
        (self.folder / "down").touch()

    def restore_accounting(self) -> None:
        """Let sacct answer again."""
        (self.folder / "down").unlink()

    def close(self) -> None:
        for job in self.jobs:
            job.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
