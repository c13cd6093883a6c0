"""One run in two processes over gloo: the same curve, the same counts, one record."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from runs import curve, make_model, parts

from headtohead.tracking.record import RunRecord
from headtohead.tracking.store import RunFolder
from headtohead.training.run import train

PROGRAM = """
import sys
from functools import partial
from pathlib import Path

from runs import make_model, parts
from headtohead.training.distributed import is_main_process
from headtohead.training.run import train

still = partial(make_model, dropout=0.0)
for accumulate in (1, 2):
    record = train(parts(Path(sys.argv[1]), make_model=still, strategy="ddp", devices=2, accumulate=accumulate))
    if is_main_process():
        print(record.path)
"""
"""Lightning starts it a second time, as the second process."""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[RunRecord]:
    """Two runs, of 1 and 2 parts per device."""
    folder = tmp_path_factory.mktemp("two")
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    search = os.pathsep.join(str(path) for path in (Path(__file__).parent, Path(__file__).parents[1]))
    done = subprocess.run(
        [sys.executable, str(program), str(folder)],
        env={**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(list((folder / "default").iterdir())) == 2, "one folder per run"
    return [RunFolder.open(path).read_record() for path in done.stdout.split()]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return train(parts(tmp_path_factory.mktemp("one"), make_model=partial(make_model, dropout=0.0)))


def test_two_processes_have_the_curve_of_one_at_the_same_global_batch(
    records: list[RunRecord], alone: RunRecord
) -> None:
    """Rows are of different lengths, so the processes score different numbers of tokens."""
    for record in records:
        assert record.status == "finished"
        for name in ("train/loss", "validation/loss", "test/loss"):
            assert curve(record.path, name) == pytest.approx(curve(alone.path, name), rel=1e-6)


def test_work_is_summed_over_processes(records: list[RunRecord], alone: RunRecord) -> None:
    for record in records:
        assert record.environment.device["count"] == 2
        assert replace(record.progress, seconds=0) == replace(alone.progress, seconds=0)
