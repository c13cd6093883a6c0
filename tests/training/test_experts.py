"""Training a mixture of experts: its losses act, its loads are logged, and how a batch is split changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from headtohead.architectures.architecture import Architecture
from headtohead.components.checkpointing import Checkpointing
from headtohead.components.mixers.linear.linear_attention import Performer
from headtohead.components.mixture_of_experts import MixtureOfExperts, Routing
from headtohead.training.run import train
from training.programs import records_of
from training.runs import curve, losses, make_model, parts


def model(**options: Any) -> partial:
    experts = partial(
        MixtureOfExperts,
        routing=Routing(num_experts=4, experts_per_token=1, renormalise=False, **options),
        multiple=1.0,
    )
    return partial(make_model, feedforward=experts, dropout=0.0)


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_balance_loss_evens_out_the_loads(tmp_path: Path) -> None:
    """The last eight steps of three seeds gave 0.29 to 0.32 with the loss and 0.53 to 0.57 without it."""

    def largest(weight: float) -> float:
        make = partial(lopsided, model(balance_weight=weight, z_weight=0.0))
        record = train(parts(tmp_path / str(weight), make_model=make, max_steps=24))
        loads = [curve(record.path, f"experts/stack.blocks.1.feedforward/load_{e}")[-8:] for e in range(4)]
        return max(sum(load) for load in loads) / 8

    assert largest(1.0) < 0.42 < largest(0.0)


@pytest.mark.slow
def test_without_weight_the_auxiliary_losses_change_nothing_and_with_it_they_do(tmp_path: Path) -> None:
    none = losses(tmp_path / "a", make_model=model(balance_weight=0.0, z_weight=0.0))
    some = losses(tmp_path / "b", make_model=model(balance_weight=10.0, z_weight=0.0))
    assert none[0] == some[0], "the logged loss is the task's alone"
    assert none[-1] != some[-1]


@pytest.mark.slow
def test_recomputation_leaves_losses_and_loads_as_they_are(tmp_path: Path) -> None:
    plain = train(parts(tmp_path / "plain", make_model=model()))
    again = train(parts(tmp_path / "again", make_model=model(), checkpointing=Checkpointing("full")))
    for name in ("train/loss", "experts/stack.blocks.0.feedforward/load_0"):
        assert curve(again.path, name) == pytest.approx(curve(plain.path, name), rel=1e-5)


@pytest.mark.slow
def test_a_batch_in_parts_is_refused_unless_each_part_is_to_be_balanced_by_itself(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"trainer\.accumulate=2 .*balance=micro_batch"):
        train(parts(tmp_path, make_model=model(), accumulate=2))
    for free in ({"balance": "micro_batch"}, {"balance_weight": 0.0, "z_weight": 0.0}):
        assert train(parts(tmp_path, make_model=model(**free), accumulate=2)).status == "finished"


@pytest.mark.slow
def test_each_part_balanced_by_itself_trains_something_else(tmp_path: Path) -> None:
    def last(accumulate: int, **options: Any) -> float:
        return losses(tmp_path, make_model=model(balance_weight=1.0, **options), accumulate=accumulate)[-1]

    whole = last(1)
    assert last(1, balance="micro_batch") == pytest.approx(whole, rel=1e-6)
    assert last(4, balance="micro_batch") != pytest.approx(whole, rel=1e-5)


TWO = """
from training.test_experts import COMPARED

for make in COMPARED:
    tell(train(parts(folder, make_model=make, strategy="ddp", devices=2)))
"""
COMPARED = (
    model(balance_weight=1.0),
    model(balance_weight=1.0, capacity=1.0),
    partial(make_model, dropout=0.0, mixer=partial(Performer, redraw_every=2)),
)


@pytest.mark.slow
@pytest.mark.process
def test_two_devices_balance_their_batch_as_one_does(tmp_path: Path) -> None:
    """Shares, capacities and directions redrawn are those of the whole batch."""
    alone = [train(parts(tmp_path / "one", make_model=make)) for make in COMPARED]
    for one, two in zip(alone, records_of(TWO, tmp_path), strict=True):
        for name in ("train/loss", "test/loss"):
            assert curve(two.path, name) == pytest.approx(curve(one.path, name), rel=1e-5)
