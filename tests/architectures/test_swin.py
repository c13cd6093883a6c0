"""Swin's windows see what the paper says, in every stage, and cost what they declare."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from classic_models import SIZE, classic_model, exact_classic
from headtohead.architectures.ledger import ledger
from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.block import Block
from headtohead.components.component import Context
from headtohead.components.mixers.attention.shifted_window import ShiftedWindowAttention
from headtohead.components.norms import RmsNorm
from headtohead.interpretability.recorded_attention import attention_maps
from small_models import redraw

IMAGE = (3, 8, 12)
GRID, WINDOW = (4, 6), 2


def windows(shift: int, **changes: Any) -> ShiftedWindowAttention:
    made = ShiftedWindowAttention(8, num_heads=2, grid=GRID, window=WINDOW, shift=shift, **changes)
    return redraw(made.double())


def tokens(num_rows: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(num_rows, GRID[0] * GRID[1], 8, generator=generator, dtype=torch.float64)


def rows_and_columns() -> tuple[Tensor, Tensor]:
    """Return the row and the column of every token."""
    index = torch.arange(GRID[0] * GRID[1])
    return index // GRID[1], index % GRID[1]


def seen(shift: int) -> Tensor:
    """Return whether two tokens are in the same window, where windows begin at `shift` and none wraps around."""
    windows_of = [torch.div(side - shift, WINDOW, rounding_mode="floor") for side in rows_and_columns()]
    same = [window[:, None] == window[None, :] for window in windows_of]
    return same[0] & same[1]


def slow(mixer: ShiftedWindowAttention, x: Tensor, shift: int) -> Tensor:
    """Return the same over all pairs of tokens at once."""
    rows, columns = rows_and_columns()
    apart = [(side[:, None] - side[None, :]).clamp(1 - WINDOW, WINDOW - 1) + WINDOW - 1 for side in (rows, columns)]
    bias = mixer.table[apart[0] * (2 * WINDOW - 1) + apart[1]].permute(2, 0, 1)
    q, k, v = (part(x).unflatten(-1, (2, 4)).transpose(1, 2) for part in (mixer.query, mixer.key, mixer.value))
    scores = (q @ k.mT / 2.0 + bias).masked_fill(~seen(shift), float("-inf"))
    result: Tensor = mixer.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    return result


@pytest.mark.parametrize("qkv_bias", [True, False])
@pytest.mark.parametrize("shift", [0, 1])
def test_windows_give_what_masked_attention_over_the_whole_grid_gives(shift: int, qkv_bias: bool) -> None:
    mixer, x = windows(shift, qkv_bias=qkv_bias), tokens()
    torch.testing.assert_close(mixer(x, Context()), slow(mixer, x, shift), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shift", [0, 1])
def test_maps_are_shares_within_windows_and_give_the_output(shift: int) -> None:
    mixer, x = windows(shift), tokens()
    weights = mixer.attention(x, Context())
    assert bool(((weights > 0) == seen(shift)).all())
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    torch.testing.assert_close(mixer.mixed(weights, x, Context()), mixer(x, Context()), rtol=0, atol=1e-12)


def test_maps_of_every_stage_know_their_own_grid() -> None:
    model = classic_model("swin")
    maps = attention_maps(model, {"images": torch.rand(2, *IMAGE)})
    assert [(one.name, one.grid, one.weights.shape) for one in maps] == [
        ("layers.0.mixer", (8, 12), (2, 2, 96, 96)),
        ("layers.1.mixer", (8, 12), (2, 2, 96, 96)),
        ("layers.3.mixer", (4, 6), (2, 4, 24, 24)),
    ]


def test_every_second_block_of_a_stage_is_shifted_unless_the_grid_is_one_window_high() -> None:
    model = classic_model("swin", depths=[2, 2], num_layers=4, window=4, image_shape=(3, 8, 16))
    mixers = [layer.mixer for layer in model.layers if isinstance(layer, Block)]
    assert [(mixer.window, mixer.shift) for mixer in mixers if isinstance(mixer, ShiftedWindowAttention)] == [
        (4, 0), (4, 2), (4, 0), (4, 0),
    ]  # fmt: skip


def test_merging_joins_the_squares_of_a_grid() -> None:
    model = exact_classic("swin")
    merging = model.layers[2]
    x = torch.rand(1, 96, 8, dtype=torch.float64)
    changed = x.clone()
    changed[0, 12 * 3 + 5] += 1.0  # row 3 and column 5
    moved = (merging(x, Context()) != merging(changed, Context())).any(-1)[0]
    assert moved.nonzero().flatten().tolist() == [6 * 1 + 2]


@pytest.mark.parametrize(
    "changes",
    [
        {"depths": [1, 2]}, {"qkv_bias": False}, {"drop_path": 0.3}, {"dropout": 0.2}, {"norm": RmsNorm},
        {"window": 4, "image_shape": (3, 8, 16)},
        {"num_stages": 1, "depths": None}, {"activation": "relu", "multiple": 2.0},
        {"patch_size": 2, "image_shape": (3, 8, 16)},
    ],
    ids=str,
)  # fmt: skip
def test_declared_costs_are_counted_whatever_the_options(changes: dict[str, Any]) -> None:
    model = classic_model("swin", **changes)
    totals, images = ledger(model, SIZE).totals, model.example_inputs(SIZE, 1, torch.device("cpu"))
    assert totals.parameters == sum(parameter.numel() for parameter in model.parameters())
    with counting() as forward, saved_bytes(model) as saved:
        logits = model(**images)
    if "dropout" not in changes:  # the noise of attention's dropout depends on its kernel
        assert totals.activation_bytes == pytest.approx(saved(), rel=0.05)
    with counting() as backward:
        logits.sum().backward()
    assert totals.forward_flops_per_sample == forward.products
    assert totals.training_flops_per_sample == forward.products + backward.products


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": 3}, r"model\.window=3 does not divide the grid of 8 x 12 patches: choose 1, 2, 4, or another"),
        ({"num_heads": 1}, r"model\.num_stages=2 halves model\.num_heads=1 at each stage before the last"),
        ({"depths": [3]}, r"model\.depths=\[3\] must be a number of layers"),
        (
            {"image_shape": (3, 3, 3), "window": 3},
            "one of 3 x 3 cannot be halved: choose fewer stages",
        ),
        ({"patch_size": 5}, r"model\.patch_size=5 does not divide images of 8 x 12"),
    ],
)
def test_what_no_swin_can_be_built_of_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classic_model("swin", **changes)
