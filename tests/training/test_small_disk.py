"""A disk that is really full: a memory file system of half a megabyte, which grows when the run is to go on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TRAIN = (
    f"{sys.executable} -m headtohead train tracking=none trainer.accelerator=cpu trainer.max_steps=4 "
    "trainer.validate_every=2 data.num_train=40 data.num_validation=8 data.num_test=8 data.tokenizer=byte "
    "model.num_layers=2 model.d_model=64 probe=none trainer.num_samples=0"
)
SCRIPT = f"""
mount -t tmpfs -o size=512k tmpfs disk || exit 77
{TRAIN} output_dir=disk; echo "first $?"
find disk -name '*.part'
mount -o remount,size=64m disk
{sys.executable} -m headtohead train resume_from=$(echo disk/*/*); echo "second $?"
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_run_on_a_disk_that_is_full_ends_in_a_sentence_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    (tmp_path / "disk").mkdir()
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", SCRIPT],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HEADTOHEAD_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine lets nobody mount a disk")
    assert "first 1" in done.stdout and "second 0" in done.stdout, done.stdout + done.stderr
    assert "out_of_disk: the disk is full: " in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert ".part" not in done.stdout
