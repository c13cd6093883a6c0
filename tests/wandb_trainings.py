"""Real `h2h train` runs of a few steps, each a process of its own that is logged in to the tests' W&B server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder, scan
from waiting import PATIENCE

STEPS = 12
TINY = (
    "model.d_model=8",
    "model.num_layers=1",
    "data.num_train=40",
    "data.num_validation=4",
    "data.num_test=4",
    "data.batch_size=4",
    "data.context_length=8",
    "data.tokenizer=char",
    "trainer.accelerator=cpu",
    "trainer.validate_every=4",
    "trainer.log_every=1",
    f"trainer.max_steps={STEPS}",
    "probe=none",
)
PATIENT = ("tracking.connect_timeout=100", "tracking.init_timeout=600", "tracking.finish_timeout=600")
"""For a server that answers, however late."""
IMPATIENT = ("tracking.connect_timeout=1", "tracking.init_timeout=3", "tracking.finish_timeout=3")
"""For a server that does not answer at the start."""
PROGRAM = [sys.executable, "-m", "headtohead"]


@dataclass
class Training:
    """A run that is over."""

    exit_code: int
    message: str
    seconds_after_the_end: float
    """From the last line of metrics.csv to the end of the process."""
    record: RunRecord

    @property
    def folder(self) -> RunFolder:
        assert self.record.path is not None
        return RunFolder(self.record.path)

    def losses(self) -> list[tuple[int, float]]:
        curve = self.folder.metrics()["train/loss"]
        return list(zip(curve.step, curve.value, strict=True))


def train(
    home: Path,
    account: Mapping[str, str],
    *overrides: str,
    options: Sequence[str] = PATIENT,
    terminal: Terminal | None = None,
    fault: str = "",
) -> Training:
    """`home` is the user's home folder, the working folder, and where outputs/ is; `fault` needs a terminal."""
    home.mkdir(exist_ok=True)
    arguments = ("train", *TINY, *options, *overrides)
    done = terminal.h2h(home, account, *arguments, fault=fault) if terminal else h2h(home, account, *arguments)
    over = time.time()
    (record,) = scan(home / "outputs")
    training = Training(done.returncode, done.stderr, 0.0, record)
    training.seconds_after_the_end = over - training.folder.metrics_file.path.stat().st_mtime
    return training


def h2h(home: Path, account: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of this project, as typed in that folder by one who has that account."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=home,
        env=_environment(home, account),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


class Terminal:
    """A terminal runs many commands: a process that has imported everything, of which each command is a fork."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def h2h(
        self,
        home: Path,
        account: Mapping[str, str],
        *arguments: str,
        fault: str = "",
        killed_when: Callable[[], bool] | None = None,
        but_not_before: Callable[[], bool] = lambda: True,
    ) -> subprocess.CompletedProcess[str]:
        """Killed without a word at the moment given; it stands still until what else must come to pass has done so.
        `fault` is a program that its process runs first."""
        assert self._process.stdin is not None and self._process.stdout is not None
        job = {"home": str(home), "environment": _environment(home, account), "arguments": arguments, "fault": fault}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        child = int(self._process.stdout.readline())
        if killed_when is not None:
            _wait_for(killed_when, child)
            os.kill(child, signal.SIGSTOP)
            _wait_for(but_not_before, child)
            os.kill(child, signal.SIGKILL)
        code = int(self._process.stdout.readline())
        out, message = (home / "out").read_text(), (home / "err").read_text()
        return subprocess.CompletedProcess(["h2h", *arguments], code, out, message)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


_FORKS = """
import json, os, sys
import headtohead.api, headtohead.cli.run_summary, headtohead.training.run
from headtohead.cli import main

for line in sys.stdin:
    job = json.loads(line)
    if child := os.fork():
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["home"])
    for number, name in ((0, os.devnull), (1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644), number)
    exec(job["fault"])
    sys.exit(main(job["arguments"]))
"""


def _wait_for(moment: Callable[[], bool], child: int) -> None:
    while not moment():
        os.kill(child, 0)  # an error where it has ended by itself
        time.sleep(0.005)


def _environment(home: Path, account: Mapping[str, str]) -> dict[str, str]:
    saved = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    own = {"HOME": str(home), "HEADTOHEAD_CACHE": str(home / "cache"), "NETRC": str(home / "netrc")}
    return {**saved, **own, **account}
