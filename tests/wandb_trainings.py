"""Real `h2h train` runs of a few steps, each a process of its own that is logged in to the tests' W&B server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.tracking.record import RunRecord
from headtohead.tracking.store import RunFolder, scan

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
IMPATIENT = ("tracking.connect_timeout=1", "tracking.init_timeout=3", "tracking.finish_timeout=3")
PROGRAM = [sys.executable, "-c", "import sys; from headtohead.cli import main; sys.exit(main())"]


@dataclass
class Training:
    """A run that is over."""

    exit_code: int
    said: str
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


def train(home: Path, account: Mapping[str, str], *overrides: str, options: Sequence[str] = IMPATIENT) -> Training:
    """`home` is the user's home folder, the working folder, and where outputs/ is."""
    done = h2h(home, account, "train", *TINY, *options, *overrides)
    over = time.time()
    (record,) = scan(home / "outputs")
    training = Training(done.returncode, done.stderr, 0.0, record)
    training.seconds_after_the_end = over - training.folder.metrics_file.path.stat().st_mtime
    return training


def h2h(home: Path, account: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of this project, as typed in that folder by one who has that account."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    own = {"HOME": str(home), "HEADTOHEAD_CACHE": str(home / "cache"), "NETRC": str(home / "netrc")}
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=home,
        env={**kept, **own, **account},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
