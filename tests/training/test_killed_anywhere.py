"""kill -9 at moments drawn at random, as often as it takes: the run that goes on ends as the undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from headtohead.tracking.store import RunFolder, find_runs

pytestmark = [pytest.mark.slow, pytest.mark.process]
TINY = (
    "model.d_model=16", "model.num_heads=2", "data.num_train=400", "data.num_validation=64", "data.num_test=64",
    "trainer.max_steps=60", "trainer.validate_every=10", "trainer.log_every=1", "trainer.threads=1", "tracking=none",
    "trainer.progress_bar=false", "trainer.num_samples=0",
)  # fmt: skip
KINDS = {
    "plain": (),
    "averaged weights": ("trainer.weight_averaging=0.9",),
    "accumulated": ("trainer.accumulate=2",),
    "worker processes": ("trainer.num_workers=2",),
    "bf16-mixed": ("precision=bf16-mixed",),
    "ddp": ("trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu"),
    "fsdp": ("trainer=fsdp", "trainer.devices=2", "trainer.accelerator=cpu"),
}
MOST_KILLS = 4
"""Of one run; after that it is let go on to its end."""


def started(home: Path, kind: str, *overrides: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headtohead", "train", *KINDS[kind], *TINY, f"output_dir={home}", *overrides]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, env=environment
    )


def ended(process: subprocess.Popen[bytes]) -> None:
    _, told = process.communicate(timeout=300)
    assert process.returncode == 0, told.decode()[-2000:]


@cache
def undisturbed(home: Path, kind: str) -> tuple[RunFolder, float]:
    """The run, and the seconds that it took."""
    began = time.monotonic()
    ended(started(home, kind))
    return find_runs(home)[0], time.monotonic() - began


def lines(folder: RunFolder) -> list[tuple[int, str, float]]:
    """Every line of metrics.csv but those that are times."""
    found = folder.metrics_file._lines()
    return sorted((p.step, name, value) for p, name, value in found if not name.startswith("throughput"))


def test_a_run_that_is_killed_anywhere_ends_as_if_it_had_not_been(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, draw_seed: int
) -> None:
    kind = list(KINDS)[draw_seed % len(KINDS)]
    whole, seconds = undisturbed(tmp_path_factory.getbasetemp() / f"undisturbed-{kind}".replace(" ", "-"), kind)
    rng = random.Random(f"{kind} {draw_seed}")
    for _ in range(rng.randint(1, MOST_KILLS)):
        runs = find_runs(tmp_path)
        process = started(tmp_path, kind, *([f"resume_from={runs[0].path}"] if runs else []))
        try:
            process.communicate(timeout=rng.uniform(0.3, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    runs = find_runs(tmp_path)
    if not runs or runs[0].read_record().status != "finished":
        ended(started(tmp_path, kind, *([f"resume_from={runs[0].path}"] if runs else [])))
    (run,) = find_runs(tmp_path)
    assert run.read_record().status == "finished" and not run.is_live()
    assert lines(run) == lines(whole)
