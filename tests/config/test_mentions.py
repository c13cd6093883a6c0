"""Mentions before a run ask CUDA nothing, since workers are forked by the process that looks for them."""

from __future__ import annotations

import sys

import pytest
import torch

from headtohead.config.compose.composition import compose_checked
from headtohead.config.mentions import mentions
from headtohead.training.parallel import devices

NO_EFFECT = "checkpointing=offload has no effect on a CPU, whose memory holds the activations already"


def refuse_answer() -> bool:
    raise AssertionError("CUDA is asked")


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
@pytest.mark.parametrize("driver", ["/dev/null", "/dev/no_driver"])
@pytest.mark.parametrize("accelerator", ["auto", "cpu"])
def test_offloading_is_mentioned_where_there_is_no_gpu(
    accelerator: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", refuse_answer)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(devices, "_DRIVERS", (driver,))
    config = compose_checked("train", ["checkpointing=offload", f"trainer.accelerator={accelerator}"])
    may_be_on_gpu = accelerator == "auto" and driver == "/dev/null"
    assert list(mentions(config)) == ([] if may_be_on_gpu else [NO_EFFECT])
    assert not list(mentions(compose_checked("train", ["checkpointing=none"])))
