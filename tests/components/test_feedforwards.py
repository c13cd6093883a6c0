"""Feed-forward layers against their formulas."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from contracts.choices import factory, names
from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.feedforwards import ACTIVATIONS, DenseFeedForward, in_few_shapes, inner_width
from small_models import redraw

FORMULAS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    "tanh": lambda x: (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x)),
    "squared_relu": lambda x: x.clamp(min=0) ** 2,
}


def test_every_activation_has_a_formula_here_and_a_yaml() -> None:
    assert set(FORMULAS) == set(ACTIVATIONS) <= set(names("feedforward"))


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("name", FORMULAS)
def test_layer_is_its_formula(name: str, gated: bool) -> None:
    layer = DenseFeedForward(6, activation=name, gated=gated, multiple=2.0).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    hidden = FORMULAS[name](layer.gate(x)) * layer.up(x) if gated else FORMULAS[name](layer.up(x))
    torch.testing.assert_close(layer(x, Context()), F.linear(hidden, layer.down.weight, layer.down.bias))


@pytest.mark.parametrize(("choice", "activation"), [("geglu", "gelu"), ("reglu", "relu"), ("swiglu", "silu")])
def test_gated_choices_are_their_formulas(choice: str, activation: str) -> None:
    layer, x = factory("feedforward", choice)(6).double(), torch.randn(2, 3, 6, dtype=torch.float64)
    gate, up, down = (getattr(layer, name).weight for name in ("gate", "up", "down"))
    hidden = FORMULAS[activation](x @ gate.T) * (x @ up.T)
    torch.testing.assert_close(layer(x, Context()), hidden @ down.T)


@pytest.mark.parametrize("gated", [False, True])
def test_gains_multiply_the_inner_channels(gated: bool) -> None:
    layer = redraw(DenseFeedForward(6, activation="silu", gated=gated, gains=True).double())
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    up = layer.up(x) * layer.up_gain
    hidden = F.silu(layer.gate(x) * layer.gate_gain) * up if gated else F.silu(up)
    torch.testing.assert_close(layer(x, Context()), layer.down(hidden))


def test_two_thirds_gives_a_gated_layer_the_parameters_of_a_plain_one() -> None:
    for d_model in (64, 128, 256, 512, 768):
        plain, gated = (
            sum(p.numel() for p in factory("feedforward", name, bias=False)(d_model).parameters())
            for name in ("gelu", "swiglu")
        )
        assert abs(gated / plain - 1) < 0.02, d_model


@pytest.mark.parametrize(
    ("d_model", "multiple", "two_thirds", "inner"),
    [(768, 4.0, False, 3072), (768, 4.0, True, 2048), (64, 4.0, True, 168), (6, 2.5, False, 15), (2, 1.0, True, 8)],
)
def test_inner_width(d_model: int, multiple: float, two_thirds: bool, inner: int) -> None:
    assert inner_width(d_model, multiple, two_thirds=two_thirds) == inner


@pytest.mark.parametrize("name", FORMULAS)
def test_rounded_up_rows_give_the_same_in_few_shapes(name: str) -> None:
    met = set()

    def act(rows: torch.Tensor) -> torch.Tensor:
        met.add(rows.shape)
        return FORMULAS[name](rows)

    for num_rows in range(0, 300, 7):
        rows, weights = torch.randn(num_rows, 3, dtype=torch.float64, requires_grad=True), torch.randn(num_rows, 3)
        gradients = [
            torch.autograd.grad((way(rows) * weights).sum(), rows)[0]
            for way in (FORMULAS[name], lambda rows: in_few_shapes(act, rows))
        ]
        torch.testing.assert_close(in_few_shapes(act, rows), FORMULAS[name](rows), rtol=0, atol=0)
        torch.testing.assert_close(*gradients, rtol=0, atol=0)
    assert len(met) <= 4


@pytest.mark.parametrize("gains", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("name", FORMULAS)
def test_declared_costs_are_counted_costs_dropout_included(name: str, gated: bool, dropout: float, gains: bool) -> None:
    layer = DenseFeedForward(8, activation=name, gated=gated, dropout=dropout, multiple=3.0, bias=False, gains=gains)
    x = torch.randn(1, 7, 8, requires_grad=True)
    with counting() as counts, saved_bytes(layer) as saved:
        y = layer(x, Context())
    declared = layer.costs(CostContext(7))
    assert (declared.forward_flops, declared.activation_bytes) == (counts.products, saved())
    with counting() as backward:
        y.sum().backward()
    assert declared.training_flops == counts.products + backward.products


def test_dropout_acts_in_training_alone() -> None:
    layer = DenseFeedForward(8, dropout=0.5)
    x = torch.randn(1, 3, 8)
    assert not torch.equal(layer(x, Context()), layer(x, Context()))
    layer.eval()
    assert torch.equal(layer(x, Context()), layer(x, Context()))
