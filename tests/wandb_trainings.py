"""Real `h2h train` runs of a few steps, each a process of its own that is logged in to the tests' W&B server."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import warm_commands
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder, scan
from waiting import until

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
"""The options for a server that answers, however late."""
IMPATIENT = ("tracking.connect_timeout=1", "tracking.init_timeout=3", "tracking.finish_timeout=3")
"""The options for a server that does not answer at the start."""

STILL, MOVED = 3.0, 0.01
"""Seconds that a stopped command stands still while something is waited for, and that it then moves on."""


@dataclass
class Training:
    """A run that is over."""

    exit_code: int
    message: str
    seconds_after_the_end: float
    """The seconds from the last line of metrics.csv to the end of the process."""
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
    first: str = "",
) -> Training:
    """`home` is the user's home folder, the working folder, and where outputs/ is."""
    home.mkdir(exist_ok=True)
    done = h2h(home, account, "train", *TINY, *options, *overrides, first=first)
    over = time.time()
    (record,) = scan(home / "outputs")
    training = Training(done.returncode, done.stderr, 0.0, record)
    training.seconds_after_the_end = over - training.folder.metrics_file.path.stat().st_mtime
    return training


def h2h(home: Path, account: Mapping[str, str], *arguments: str, first: str = "") -> subprocess.CompletedProcess[str]:
    """A command of this project, as typed in that folder by one who has that account."""
    return warm_commands.h2h(*arguments, folder=home, environment=environment(home, account), first=first)


def kill(
    home: Path,
    account: Mapping[str, str],
    *arguments: str,
    when: Callable[[], bool],
    but_not_before: Callable[[], bool] = lambda: True,
) -> None:
    """Kill a command without a word at the moment given; it stands still until what else must come to pass has done
    so, and moves on a little where that takes long: what was not sent yet arrives from nobody who stands still."""
    command = warm_commands.WarmCommand(
        arguments, output=home / "output", folder=home, environment=environment(home, account)
    )
    until(lambda: command.poll() is not None or when(), every=0.005)
    command.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    while command.poll() is None and not but_not_before():
        if time.monotonic() - stopped > STILL:
            command.send_signal(signal.SIGCONT)
            time.sleep(MOVED)
            command.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
        time.sleep(0.005)
    command.kill()
    assert command.wait() == -signal.SIGKILL, (home / "output").read_text()


def environment(home: Path, account: Mapping[str, str]) -> dict[str, str]:
    saved = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    own = {"HOME": str(home), "HEADTOHEAD_CACHE": str(home / "cache"), "NETRC": str(home / "netrc")}
    return {**saved, **own, **account}
