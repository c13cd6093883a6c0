"""AdEMAMix against a plain writing of its paper's algorithm."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from headtohead.training.optim.elementwise_optimizers import AdEMAMix
from headtohead.training.optim.optimizers import ademamix
from headtohead.training.run import train
from training.interruptions import interrupted
from training.runs import curve, losses, parts
from training.test_lion_and_muon import steps

HALF_LIFE = math.log(0.5)


def half_life(beta: float) -> float:
    """The steps after which an average holds half of what it held."""
    return HALF_LIFE / math.log(beta)


@pytest.mark.parametrize("ramp", [None, 3, 20])
def test_it_takes_the_steps_of_its_paper(ramp: int | None) -> None:
    weight = nn.Parameter(torch.randn(4, 3, dtype=torch.float64))
    w, m1, m2, v = weight.detach().numpy().copy(), np.zeros((4, 3)), np.zeros((4, 3)), np.zeros((4, 3))
    optimizer = AdEMAMix([weight], lr=0.01, betas=(0.9, 0.99), slow_beta=0.995, ramp=ramp, weight_decay=0.3)
    for t, g in enumerate(steps(optimizer, [weight], 8), start=1):
        share = 1.0 if ramp is None else min(1.0, t / ramp)
        slow = 0.5 ** (1 / ((1 - share) * half_life(0.9) + share * half_life(0.995)))
        m1, m2, v = 0.9 * m1 + 0.1 * g, slow * m2 + (1 - slow) * g, 0.99 * v + 0.01 * g * g
        mixed = m1 / (1 - 0.9**t) + 5.0 * share * m2
        w = w - 0.01 * (mixed / (np.sqrt(v / (1 - 0.99**t)) + 1e-8) + 0.3 * w)
    np.testing.assert_allclose(weight.detach().numpy(), w, rtol=1e-10)


@pytest.mark.slow
def test_a_resumed_run_is_bit_equal(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"optimizer": partial(ademamix, lr=1e-3, ramp=9), "accumulate": 2, "validate_every": 4}
    undisturbed = losses(tmp_path, **changes)
    first = interrupted(tmp_path, 7, **changes)
    second = train(parts(tmp_path, resume_from=first.path, **changes))
    assert curve(second.path) == undisturbed
