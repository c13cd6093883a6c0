"""A disk that is really full: a memory file system of half a megabyte, which grows when the run is to go on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headtohead.records.run_folder import find_runs
from waiting import PATIENCE

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

TRACKED = f"""
mount -t tmpfs -o size=64k tmpfs disk || exit 77
export WANDB_DIR=$PWD/disk
{sys.executable} -m headtohead train tracking=offline trainer.accelerator=cpu trainer.max_steps=60 \\
    trainer.log_every=1 trainer.validate_every=10 data.num_train=40 data.num_validation=8 data.num_test=8 \\
    data.tokenizer=byte model.num_layers=1 model.d_model=16 model.num_heads=2 trainer.progress_bar=false output_dir=runs
echo "trained $?"
mount -o remount,size=64m disk
{sys.executable} -m headtohead sync runs --dry-run; echo "listed $?"
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_run_whose_wandb_files_find_no_room_trains_on_and_its_record_says_what_is_missing(tmp_path: Path) -> None:
    """Rows, tables and pictures: W&B's folder is on a disk of its own, which fills up in the middle of the run."""
    done = _on_a_small_disk(tmp_path, TRACKED)
    assert "trained 0" in done.stdout and "Traceback" not in done.stderr, done.stdout + done.stderr
    (run,) = find_runs(tmp_path / "runs")
    record = run.read_record()
    assert record.status == "finished" and len(run.metrics()["train/loss"].step) == 60
    upload = f"h2h sync {run.path.relative_to(tmp_path)}"
    assert record.wandb.upload == upload and record.wandb.lost.keys() == {"numbers", "tables", "pictures"}
    assert all(record.wandb.lost.values())
    steps = record.wandb.lost["numbers"]
    assert f"W&B's file is missing the numbers of {steps} steps; `{upload}` uploads them" in done.stderr
    assert "1 run to upload" in done.stdout and "listed 0" in done.stdout


@pytest.mark.process
@pytest.mark.slow
def test_a_run_on_a_disk_that_is_full_ends_in_a_sentence_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    done = _on_a_small_disk(tmp_path, SCRIPT)
    assert "first 1" in done.stdout and "second 0" in done.stdout, done.stdout + done.stderr
    assert "out_of_disk: the disk is full: " in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert ".part" not in done.stdout


def _on_a_small_disk(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("unshare") is None:
        pytest.skip("there is no `unshare` (util-linux) here, which gives the test a disk of its own to fill")
    (folder / "disk").mkdir()
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", script],
        cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HEADTOHEAD_CACHE": str(folder / "cache")},
    )  # fmt: skip
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(
            "mounting a disk of its own is not permitted here: user namespaces are switched off, or in a container"
        )
    return done
