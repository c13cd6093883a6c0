"""What a run's record says of fast kernels."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from runs import make_model, parts

from headtohead.components.mixers.retention import Retention
from headtohead.tracking.store import RunFolder
from headtohead.training.run import train


def test_the_record_says_what_computed_mixers_that_have_a_fast_kernel(tmp_path: Path) -> None:
    record = train(parts(tmp_path, make_model=partial(make_model, mixer=Retention, num_layers=1), max_steps=1))
    assert record.path is not None
    read = RunFolder.open(record.path).read_record()
    assert read.environment.device["kernels"] == {"stack.blocks.0.mixer": "torch"}
