"""ConvNeXt's parts do what the paper says, and cost what they declare."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from classic_models import IMAGE, SIZE, classic_model, exact_classic
from headtohead.architectures.ledger import ledger
from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.convnext_layers import ConvNextBlock, Downsampling
from headtohead.components.norms import RmsNorm

DEEP: dict[str, Any] = {"num_layers": 4, "num_stages": 3, "depths": [1, 2, 1], "patch_size": 1}


@pytest.mark.parametrize(
    "changes",
    [DEEP, {"drop_path": 0.3}, {"layer_scale": 0.0}, {"norm": RmsNorm}, {"activation": "relu"}, {"kernel": 3}],
    ids=str,
)
def test_declared_costs_are_counted_whatever_the_options(changes: dict[str, Any]) -> None:
    model = classic_model("convnext", **changes)
    totals, images = ledger(model, SIZE).totals, torch.rand(1, *IMAGE)
    assert totals.parameters == sum(parameter.numel() for parameter in model.parameters())
    with counting() as forward, saved_bytes(model) as saved:
        logits = model(images)
    assert totals.activation_bytes == pytest.approx(saved(), rel=0.05)
    with counting() as backward:
        logits.sum().backward()
    assert totals.forward_flops_per_sample == forward.products
    assert totals.training_flops_per_sample == forward.products + backward.products


def test_stages_have_the_given_depths_and_double_the_channels_as_they_halve_the_grid() -> None:
    model = classic_model("convnext", **DEEP)
    seen = [(layer.conv.out_channels, layer.grid) for layer in model.layers if isinstance(layer, ConvNextBlock)]
    assert seen == [(4, (8, 6)), (8, (4, 3)), (8, (4, 3)), (16, (2, 1))]
    assert model.features(torch.rand(2, *IMAGE)).shape == (2, 1, 16)


def test_a_block_whose_gain_is_zero_gives_its_stream() -> None:
    block = next(one for one in exact_classic("convnext").modules() if isinstance(one, ConvNextBlock))
    assert block.gain is not None
    with torch.no_grad():
        block.gain.zero_()
    x = torch.rand(2, block.conv.in_channels, *block.grid, dtype=torch.float64)
    assert torch.equal(block(x), x)


def test_gains_start_where_layer_scale_says() -> None:
    blocks = [one for one in classic_model("convnext", layer_scale=0.25).modules() if isinstance(one, ConvNextBlock)]
    assert all(block.gain is not None and bool((block.gain == 0.25).all()) for block in blocks)


def test_stochastic_depth_grows_from_nothing_to_the_given_rate() -> None:
    model = classic_model("convnext", **DEEP, drop_path=0.3)
    rates = [layer.drop.drop_path for layer in model.layers if isinstance(layer, ConvNextBlock)]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_the_last_column_of_an_odd_grid_is_left_out() -> None:
    model = exact_classic("convnext", **DEEP)
    halving = [layer for layer in model.layers if isinstance(layer, Downsampling)][1]
    x = torch.rand(1, 8, 4, 3, dtype=torch.float64)
    assert halving.grid == (2, 1)
    assert torch.equal(halving(x)[..., :1], halving(torch.cat([x[..., :2], x[..., 2:] + 1.0], -1)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depths": [1, 1]}, r"model\.depths=\[1, 1\] must be a number of layers for each of model\.num_stages=2"),
        ({"depths": [3]}, r"model\.depths=\[3\] must be a number of layers"),
        ({**DEEP, "patch_size": 2}, "one of 2 x 1 cannot be halved: choose fewer stages"),
        ({"patch_size": 4}, r"model\.patch_size=4 does not divide images of 8 x 6"),
        ({"kernel": 4}, "kernel=4 is not odd: choose an odd number, usually 7"),
        ({"norm": RmsNorm, "pooled_eps": 1e-3}, r"model\.pooled_eps=0\.001 is the epsilon of a layer norm"),
    ],
)
def test_what_no_convnext_can_be_built_of_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classic_model("convnext", **changes)
