"""A run that another process takes over while it trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.files.leases import LeaseLostError, Leases
from headtohead.records.run_folder import RunFolder, find_runs
from headtohead.training.run import train
from training.interruptions import at_batch, interrupted
from training.runs import curve, losses, parts


@pytest.mark.slow
@pytest.mark.parametrize("batch", [4, 6, 11])
def test_a_run_that_was_taken_over_leaves_everything_to_the_other_and_ends_with_a_sentence(
    tmp_path: Path, batch: int
) -> None:
    """The run is taken over between two logged steps, before a checkpoint, and before its end."""
    whole = losses(tmp_path / "whole")
    outputs, before = tmp_path / "outputs", {}

    def taken_over() -> None:
        (run,) = find_runs(outputs)
        lease = Leases(run.path / "leases").take("writer", take_over=True)
        assert lease is not None
        before.update({file: file.read_bytes() for file in run.path.rglob("*") if file.is_file()})
        lease.release()

    with pytest.raises(LeaseLostError, match=r"was taken over by .* writes nothing more to it and ends"):
        train(parts(outputs, data=at_batch(batch, taken_over)))
    (run,) = find_runs(outputs)
    written = {file: file.read_bytes() for file in before}
    assert {file for file in before if written[file] != before[file]} <= {run.path / "leases" / "writer.2"}
    assert run.read_record_as_written().status == "running"
    resumed = train(parts(outputs, resume_from=run.path))
    assert resumed.status == "finished" and curve(run.path) == whole


@pytest.mark.slow
def test_a_run_is_given_back_however_it_ends(tmp_path: Path) -> None:
    record = interrupted(tmp_path, 3)
    assert not RunFolder.open(record.path).is_live()
    with pytest.raises(ValueError, match="a run is continued under its own seed"):
        train(parts(tmp_path, seed=1, resume_from=record.path))
    assert not RunFolder.open(record.path).is_live()
    assert train(parts(tmp_path, resume_from=record.path)).status == "finished"
    assert not RunFolder.open(record.path).is_live()
