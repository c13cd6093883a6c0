"""xIELU against its published form, its derivative at zero, its costs and its refusal."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.xielu import Xielu, XieluFeedForward
from headtohead.errors import UsageError
from small_models import redraw


def test_layer_is_its_formula() -> None:
    layer, x = redraw(XieluFeedForward(6, multiple=2.0).double()), torch.randn(2, 3, 6, dtype=torch.float64)
    hidden, act = layer.up(x), layer.act
    alpha_p, alpha_n = torch.log1p(act.alpha_p.exp()), 0.5 + torch.log1p(act.alpha_n.exp())
    above = alpha_p * hidden**2 + 0.5 * hidden
    below = alpha_n * (hidden.exp() - 1 - hidden) + 0.5 * hidden
    expected = F.linear(torch.where(hidden > 0, above, below), layer.down.weight, layer.down.bias)
    torch.testing.assert_close(layer(x, Context()), expected)


def test_values_and_gradients_are_those_of_transformers() -> None:
    """Compare where |x| > 1e-6: theirs gives xIELU of -1e-6 for all that is closer to zero from below."""
    theirs = pytest.importorskip("transformers.activations").XIELUActivation(0.7, 0.9, 0.4, dtype=torch.float64)
    ours = Xielu(6, 0.7, 0.9, 0.4).double()
    ours.reset_parameters()
    gradients = []
    for act in (ours, theirs):
        x = torch.linspace(-3, 3, 30, dtype=torch.float64).requires_grad_()
        y = act(x)
        gradients.append((y, *torch.autograd.grad(y.square().sum(), [x, act.alpha_p, act.alpha_n])))
    for our, their in zip(*gradients, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-10, atol=1e-10)


def test_it_starts_with_its_slopes_and_is_smooth_at_zero() -> None:
    act, x = Xielu(1, 0.8, 0.8, 0.5).double(), torch.tensor([-1e-9, 0.0, 1e-9], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(torch.autograd.grad(act(x).sum(), x)[0], torch.full_like(x, 0.5))
    torch.testing.assert_close(act(x.new_tensor([2.0])), x.new_tensor([0.8 * 4 + 1.0]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_declared_costs_are_counted_costs(dropout: float) -> None:
    layer, x = XieluFeedForward(8, dropout=dropout, multiple=30.0), torch.randn(1, 7, 8, requires_grad=True)
    with counting() as counts, saved_bytes(layer) as saved:
        y = layer(x, Context())
    declared = layer.costs(CostContext(7))
    assert declared.forward_flops == counts.products
    assert declared.activation_bytes == pytest.approx(saved(), abs=64)  # numbers of a slope or two
    assert declared.parameters == sum(p.numel() for p in layer.parameters())
    with counting() as backward:
        y.sum().backward()
    assert declared.training_flops == counts.products + backward.products


def test_a_slope_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match=r"initial_alpha_n=0.5 is not above beta=0.5"):
        XieluFeedForward(8, initial_alpha_n=0.5)
