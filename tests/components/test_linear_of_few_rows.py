"""A few rows are multiplied block by block where that is faster, and the result is that of the plain product."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn

from headtohead.components import linear_maps
from headtohead.components.component import Context
from headtohead.components.feedforwards import DenseFeedForward, gelu
from headtohead.components.linear_maps import DecodingMap, LinearMap, linear

WIDTH = 32
SHAPES = [(WIDTH,), (1, WIDTH), (2, WIDTH), (1, 1, WIDTH), (3, 1, WIDTH), (8, WIDTH), (9, WIDTH)]


@pytest.fixture
def by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the blocks on any processor, for matrices of any size."""
    monkeypatch.setattr(linear_maps, "reads_one_row_slowly", lambda: True)
    monkeypatch.setattr(linear_maps, "_SMALL", 0)


@pytest.mark.usefixtures("by_blocks")
@pytest.mark.parametrize("size", [10, 64, 1000, 2**21 // WIDTH + 100])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_few_rows_are_those_of_the_product(size: int, shape: tuple[int, ...], has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(*one, generator=generator, dtype=torch.float64) for one in (shape, (size, WIDTH), (size,))
    )
    expected = x @ weight.T + (bias if has_bias else 0)
    with torch.inference_mode():
        torch.testing.assert_close(linear(x, weight, bias if has_bias else None), expected)
        torch.testing.assert_close(DecodingMap(weight, bias if has_bias else None)(x), expected)


@pytest.mark.usefixtures("by_blocks")
def test_a_row_that_is_spread_out_in_memory_is_the_same_row() -> None:
    weight, rows = torch.randn(64, WIDTH), torch.randn(WIDTH, 3)
    with torch.inference_mode():
        torch.testing.assert_close(DecodingMap(weight, None)(rows[:, 1]), weight @ rows[:, 1])


@pytest.mark.usefixtures("by_blocks")
@pytest.mark.parametrize("options", [{}, {"gated": True, "gains": True}, {"bias": False}], ids=str)
def test_a_dense_layer_decodes_as_it_reads(options: dict) -> None:
    layer, context = DenseFeedForward(WIDTH, **options).double().eval(), Context()
    x = torch.randn(1, 3, WIDTH, dtype=torch.float64)
    with torch.inference_mode():
        state = layer.initial_state(1, device=x.device, dtype=x.dtype)
        written = [layer.step(token, deepcopy(state), context)[0] for token in x.split(1, dim=1)]
        torch.testing.assert_close(torch.cat(written, dim=1), layer(x, context), rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 7, 1024, 8192, 8194])
def test_gelu_is_the_same_for_few_values_and_many(size: int) -> None:
    x = torch.linspace(-6, 6, size)
    with torch.inference_mode():
        torch.testing.assert_close(gelu(x), nn.functional.gelu(x.double()).float(), rtol=1e-5, atol=2e-6)


@pytest.mark.usefixtures("by_blocks")
def test_weights_that_are_no_plain_matrix_in_memory_take_the_plain_product() -> None:
    weight, x = torch.randn(WIDTH, 128).T, torch.randn(1, WIDTH)
    with torch.inference_mode():
        torch.testing.assert_close(linear(x, weight, None), x @ weight.T)


@pytest.mark.parametrize(
    ("is_slow", "width", "by_blocks"), [(True, 512, True), (True, 256, False), (False, 512, False)]
)
def test_blocks_are_for_many_weights_on_processors_that_read_a_row_slowly(
    is_slow: bool, width: int, by_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, x = LinearMap(width, width), torch.randn(1, width)
    monkeypatch.setattr(linear_maps, "reads_one_row_slowly", lambda: is_slow)
    calls: list[torch.Size] = []

    def counted(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        calls.append(weight.shape)
        return nn.functional.linear(x, weight, bias)

    monkeypatch.setattr(linear_maps, "_linear_by_blocks", counted)
    assert torch.equal(layer(x), nn.functional.linear(x, layer.weight, layer.bias)), "autograd sees one product"
    with torch.inference_mode():
        layer(x)
    assert len(calls) == by_blocks


def test_a_graph_takes_the_plain_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode cannot be read where a graph is traced: a question after it would end the graph at each layer."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(torch, "is_inference_mode_enabled", lambda: pytest.fail("the mode was read"))
    layer, x = LinearMap(WIDTH, WIDTH), torch.randn(1, WIDTH)
    assert torch.equal(layer(x), nn.functional.linear(x, layer.weight, layer.bias))
