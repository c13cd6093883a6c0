"""One run in two processes over gloo: the same curve, the same counts, one record."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from headtohead.records.record import RunRecord
from headtohead.training.run import train
from training.programs import records_of
from training.runs import curve, make_model, parts

PROGRAM = """
for accumulate in (1, 2):
    tell(train(parts(folder, make_model=still, strategy="ddp", devices=2, accumulate=accumulate, num_samples=8)))
"""
"""Lightning starts it a second time, as the second process."""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[RunRecord]:
    """Two runs, of 1 and 2 parts per device."""
    folder = tmp_path_factory.mktemp("two")
    result = records_of(PROGRAM, folder)
    assert len(result) == len(list((folder / "default").iterdir())) == 2, "one folder per run"
    return result


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return train(parts(tmp_path_factory.mktemp("one"), make_model=partial(make_model, dropout=0.0), num_samples=8))


@pytest.mark.process
def test_two_processes_have_the_curve_of_one_at_the_same_global_batch(
    records: list[RunRecord], alone: RunRecord
) -> None:
    """Rows are of different lengths, so the processes score different numbers of tokens."""
    for record in records:
        assert record.status == "finished"
        for name in ("train/loss", "validation/loss", "test/loss"):
            assert curve(record.path, name) == pytest.approx(curve(alone.path, name), rel=1e-6)


@pytest.mark.process
def test_work_is_summed_over_processes(records: list[RunRecord], alone: RunRecord) -> None:
    for record in records:
        assert record.environment.device["count"] == 2
        assert replace(record.progress, seconds=0) == replace(alone.progress, seconds=0)


@pytest.mark.process
def test_samples_are_written_once_and_are_those_of_one_process(records: list[RunRecord], alone: RunRecord) -> None:
    assert alone.path is not None
    expected = (alone.path / "tables" / "test" / "samples.csv").read_text()
    for record in records:
        assert record.path is not None
        assert (record.path / "tables" / "test" / "samples.csv").read_text() == expected


@pytest.mark.process
@pytest.mark.slow
def test_a_process_that_is_ahead_at_the_next_run_of_a_program_waits_for_the_other(tmp_path: Path) -> None:
    program = """
import time
import torch.distributed as dist

end = dist.destroy_process_group


def end_late(*arguments):
    time.sleep(3 * is_main_process())
    end(*arguments)


dist.destroy_process_group = end_late
for _ in range(2):
    tell(train(parts(folder, make_model=still, strategy="ddp", devices=2, max_steps=2)))
"""
    curves = [curve(record.path) for record in records_of(program, tmp_path)]
    assert len(curves) == 2 and curves[0] == curves[1]
