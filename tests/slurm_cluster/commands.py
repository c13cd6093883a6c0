"""Implement the commands of the tests' SLURM in plain Python without packages, so that they start quickly."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

_GRACE_SECONDS = 3.0
_NODE_SECONDS = 1.0
"""The time for which a job whose node failed is shown so before it waits again."""
_KNOWN = {
    "array", "cpus-per-task", "error", "gpus-per-node", "gres", "job-name", "mem", "no-requeue", "nodes",
    "ntasks-per-node", "open-mode", "output", "partition", "requeue", "signal", "time", "wckey",
}  # fmt: skip


class Job:
    """A folder: the batch script, the state, how often it was begun, the number of its process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.id = folder, folder.name

    @property
    def script(self) -> str:
        return (self.folder / "script").read_text()

    @property
    def state(self) -> str:
        return self._read("state", "PENDING")

    @property
    def starts(self) -> int:
        return int(self._read("starts", "0"))

    def write(self, name: str, content: object) -> None:
        part = self.folder / f"{name}.{os.getpid()}"
        part.write_text(str(content))
        part.replace(self.folder / name)

    def _read(self, name: str, default: str) -> str:
        file = self.folder / name
        return file.read_text() if file.is_file() else default

    def processes(self) -> list[int]:
        """Return the processes of the batch script and all below it, whatever sessions they made."""
        below: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                below.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        result = [root for root in [int(self._read("process", "0"))] if root]
        for process in result:
            result += below.get(process, [])
        return result

    def warn(self) -> None:
        """Its time is almost up: the signal that the script requested."""
        (name,) = re.findall(r"^#SBATCH --signal=(\w+)@", self.script, re.MULTILINE)
        self.signal(signal.Signals[f"SIG{name}"])

    def signal(self, number: int) -> None:
        """The batch script itself is spared, as on a real cluster."""
        _send(number, self.processes()[1:])

    def kill(self) -> None:
        _send(signal.SIGKILL, self.processes())

    def end(self, why: str, grace_seconds: float) -> None:
        self.write("why", why)
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        end = time.monotonic() + grace_seconds
        while self.processes() and time.monotonic() < end and self._read("why", "") == why:
            time.sleep(0.05)
        self.kill()

    def run_out_of_time(self, grace_seconds: float) -> None:
        """SIGTERM at the limit, and after the time of grace SIGKILL; the job does not come back."""
        self.end("TIMEOUT", grace_seconds)

    def run_out_of_memory(self) -> None:
        """The kernel kills what is in the job's memory group, without a word to anybody."""
        self.write("why", "OUT_OF_MEMORY")
        self.kill()

    def fail_node(self) -> None:
        """Everything is gone at once; whether the job comes back is up to its script."""
        self.write("why", "NODE_FAIL")
        self.kill()

    @property
    def is_requeued(self) -> bool:
        """Return what `#SBATCH --requeue` says; this cluster's usual (JobRequeue=0) is that jobs are not."""
        return re.search(r"^#SBATCH --requeue$", self.script, re.MULTILINE) is not None

    def preempt(self, grace_seconds: float) -> None:
        """SIGTERM, and after the time of grace SIGKILL; then the job waits again."""
        self.end("requeue", grace_seconds)

    def run(self, environment: dict[str, str]) -> None:
        """Run until the job ends for good."""
        while True:
            self.write("why", "")
            self.write("starts", self.starts + 1)
            restarts = {"SLURM_RESTART_COUNT": str(self.starts - 1)} if self.starts > 1 else {}
            process = subprocess.Popen(["bash", str(self.folder / "script")], env={**environment, **restarts})
            self.write("process", process.pid)
            self.write("state", "RUNNING")
            code = process.wait()
            self.write("process", 0)
            why = self._read("why", "")
            if why == "NODE_FAIL" and self.is_requeued:
                self.write("state", why)
                time.sleep(_NODE_SECONDS)
            elif why != "requeue":
                self.write("state", why or ("COMPLETED" if code == 0 else "FAILED"))
                return
            self.write("state", "PENDING")


def run(command: str, arguments: Sequence[str]) -> int:
    return _COMMANDS[command](list(arguments))


def _sbatch(arguments: list[str]) -> int:
    (file,) = arguments
    script = Path(file).read_text()
    options = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", script, re.MULTILINE))
    assert options.keys() <= _KNOWN, options.keys() - _KNOWN
    number = 1 + max(
        [int(path.name.split("_")[0]) for path in _jobs().iterdir()], default=int((_jobs().parent / "last").read_text())
    )
    tasks = range(int(options["array"].partition("-")[2].partition("%")[0]) + 1) if "array" in options else [None]
    for task in tasks:
        job = Job(_jobs() / (str(number) if task is None else f"{number}_{task}"))
        job.folder.mkdir()
        (job.folder / "script").write_text(script)
        own = {} if task is None else {"SLURM_ARRAY_JOB_ID": str(number), "SLURM_ARRAY_TASK_ID": str(task)}
        variables = {
            "SLURM_JOB_ID": job.id,
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_NTASKS": "1",
            "SLURM_JOB_NODELIST": "one",
        }
        output = shlex.split(options.get("output", "slurm-%j.out"))[0]
        log_file = Path(output.replace("%j", job.id).replace("%A_%a", job.id))
        with log_file.open("a") as log:
            code = f"import os, sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
            code += "from slurm_cluster.commands import Job, Path\n"
            code += f"Job(Path({str(job.folder)!r})).run(dict(os.environ))\n"
            subprocess.Popen(
                [sys.executable, "-S", "-c", code],
                env={**os.environ, **variables, **own},
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
    sys.stdout.write(f"Submitted batch job {number}\n")
    return 0


def _srun(arguments: list[str]) -> int:
    """Becomes the program, as the only task."""
    job, outputs = os.environ["SLURM_JOB_ID"], {}
    while arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option != "--unbuffered":
            assert option in ("--output", "--error"), option
            outputs[option] = arguments.pop(0)
    for option, number in (("--output", 1), ("--error", 2)):
        if option not in outputs:
            continue
        path = outputs[option].replace("%A_%a", job).replace("%j", job).replace("%t", "0")
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), number)
    message = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_STEP_NUM_TASKS": "1"}
    os.execvpe(arguments[0], arguments, {**os.environ, **message})


def _scancel(arguments: list[str]) -> int:
    """Tell all jobs at once, and wait until they have ended."""
    ends = [Thread(target=Job(_jobs() / job).end, args=("CANCELLED", _GRACE_SECONDS)) for job in arguments]
    for end in ends:
        end.start()
    for end in ends:
        end.join()
    return 0


def _scontrol(arguments: list[str]) -> int:
    what, job = arguments
    assert what == "requeue", what
    if not Job(_jobs() / job).is_requeued:
        sys.stderr.write("Requested operation is presently disabled for this job\n")
        return 1
    Job(_jobs() / job).write("why", "requeue")
    return 0


def _sacct(arguments: list[str]) -> int:
    assert arguments[:3] == ["-o", "JobID,State,NodeList", "--parsable2"], arguments
    options = set(arguments[4::2])
    with (_jobs().parent / "questions").open("a") as questions:
        questions.write("sacct\n")
    if (slow := _jobs().parent / "slow").is_file():
        time.sleep(float(slow.read_text()))
    if (_jobs().parent / "down").is_file():
        sys.stderr.write("sacct: error: Unable to connect to the accounting database\n")
        return 1
    lines = [f"{path.name}|{Job(path).state}|one" for path in _jobs().iterdir() if path.name.split("_")[0] in options]
    sys.stdout.write("\n".join(["JobID|State|NodeList", *lines, ""]))
    return 0


def _jobs() -> Path:
    return Path(os.environ["SLURM_CLUSTER"]) / "jobs"


def _send(number: int, processes: Sequence[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "sbatch": _sbatch, "srun": _srun, "scancel": _scancel, "scontrol": _scontrol, "sacct": _sacct,
}  # fmt: skip
