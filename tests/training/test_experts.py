"""Training a mixture of experts: its losses act, its loads are logged, and how a batch is split changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from runs import curve, losses, make_model, parts

from headtohead.architectures.contracts import Architecture
from headtohead.components.checkpointing import Checkpointing
from headtohead.components.mixture_of_experts import MixtureOfExperts
from headtohead.training.run import train


def model(**options: float) -> partial:
    experts = partial(MixtureOfExperts, num_experts=4, experts_per_token=1, multiple=1.0, **options)
    return partial(make_model, feedforward=experts, dropout=0.0)


def test_every_experts_load_is_logged_layer_by_layer(tmp_path: Path) -> None:
    record = train(parts(tmp_path, make_model=model()))
    for layer in (0, 1):
        loads = [curve(record.path, f"experts/stack.blocks.{layer}.feedforward/load_{e}") for e in range(4)]
        assert all(abs(sum(step) - 1) < 1e-6 for step in zip(*loads, strict=True))
        assert len(loads[0]) == 12


def lopsided(make: Callable[[], Architecture]) -> Architecture:
    """A model whose routers send every token to the first or the second of their four experts."""
    model = make()
    for module in model.modules():
        if isinstance(module, MixtureOfExperts):
            with torch.no_grad():
                module.router.weight[1] = -module.router.weight[0]
                module.router.weight[2:] = 0
    return model


def test_the_balance_loss_evens_out_the_loads(tmp_path: Path) -> None:
    """In the last eight steps three seeds gave 0.29 to 0.32 with the loss and 0.53 to 0.57 without it."""

    def largest(weight: float) -> float:
        make = partial(lopsided, model(balance_weight=weight, z_weight=0.0))
        record = train(parts(tmp_path / str(weight), make_model=make, max_steps=24))
        loads = [curve(record.path, f"experts/stack.blocks.1.feedforward/load_{e}")[-8:] for e in range(4)]
        return max(sum(load) for load in loads) / 8

    assert largest(1.0) < 0.42 < largest(0.0)


def test_without_weight_the_auxiliary_losses_change_nothing_and_with_it_they_do(tmp_path: Path) -> None:
    none = losses(tmp_path / "a", make_model=model(balance_weight=0.0, z_weight=0.0))
    some = losses(tmp_path / "b", make_model=model(balance_weight=10.0, z_weight=0.0))
    assert none[0] == some[0], "the logged loss is the task's alone"
    assert none[-1] != some[-1]


def test_recomputation_leaves_losses_and_loads_as_they_are(tmp_path: Path) -> None:
    plain = train(parts(tmp_path / "plain", make_model=model()))
    again = train(parts(tmp_path / "again", make_model=model(), checkpointing=Checkpointing("full")))
    for name in ("train/loss", "experts/stack.blocks.0.feedforward/load_0"):
        assert curve(again.path, name) == pytest.approx(curve(plain.path, name), rel=1e-5)
