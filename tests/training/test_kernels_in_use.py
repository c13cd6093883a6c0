"""A run's record names fast kernels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from headtohead.comparison.contrasts import Contrast
from headtohead.comparison.verdicts.verdict_details import with_kernels
from headtohead.components.component import Mixer
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.mixers.identity import Identity
from headtohead.components.mixers.linear.retention import Retention
from headtohead.components.mixers.recurrent.torch_recurrence import Lstm
from headtohead.records.record import StudyPosition
from headtohead.records.run_folder import RunFolder
from headtohead.training.run import train
from single_verdict import verdict_of
from training.runs import make_model, parts


@pytest.mark.slow
def test_the_record_says_what_computed_every_mixer(tmp_path: Path) -> None:
    record = train(parts(tmp_path, make_model=partial(make_model, mixer=Retention, num_layers=1), max_steps=1))
    assert record.path is not None
    read = RunFolder.open(record.path).read_record()
    assert read.environment.device["kernels"] == {"stack.blocks.0.mixer": "torch"}


class MyMixer(SoftmaxAttention):
    """A user's own, on a kernel of theirs."""

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        del device, dtype
        return "my kernel"


class MyPlainMixer(Identity):
    """A user's own that says nothing."""

    kernel_in_use = Mixer.kernel_in_use


@pytest.mark.parametrize(
    ("mixer", "kernel"),
    [
        (MyMixer, "my kernel"),
        (MyPlainMixer, "torch"),
        (SoftmaxAttention, "fused attention"),
        (Lstm, "fused recurrence"),
    ],
)
def test_a_mixer_says_in_the_record_and_in_verdicts_on_equal_time_what_computed_it(
    tmp_path: Path, mixer: Any, kernel: str
) -> None:
    record = train(parts(tmp_path, make_model=partial(make_model, mixer=mixer, num_layers=1), max_steps=1))
    assert record.environment.device["kernels"] == {"stack.blocks.0.mixer": kernel}
    arms = [replace(record, place=StudyPosition("s", arm, 0), budget={"kind": "equal_time"}) for arm in "ab"]
    verdict = verdict_of({"a": {0: 1.0}, "b": {0: 2.0}}, Contrast("a", "b"), "min")
    (message,) = with_kernels([verdict], arms)
    assert f"with a by {kernel}, b by {kernel}" in message.sentence
    assert message.implementation_bound == (("a", "b") if kernel == "torch" else ())
