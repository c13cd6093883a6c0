"""The GRU's own backward pass against torch's kernel, in value, gradient and second derivative."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headtohead.components.sequence_ops.cell_sequences import gru_sequence, plain_gru


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("length", [1, 7])
def test_states_and_gradients_are_those_of_torch(bias: bool, length: int) -> None:
    kernel = nn.GRU(4, 4, bias=bias, batch_first=True).double()
    x = torch.randn(2, length, 4, dtype=torch.float64, requires_grad=True)
    biases = (kernel.bias_ih_l0, kernel.bias_hh_l0) if bias else (None, None)
    weights = (kernel.weight_ih_l0, kernel.weight_hh_l0, *biases)
    leaves = [x, *kernel.parameters()]
    expected = kernel(x)[0]
    upstream = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, leaves, upstream)
    for form in (gru_sequence, plain_gru):
        y = form(x, weights)
        assert (y - expected).abs().max() < 1e-12
        for mine, theirs in zip(torch.autograd.grad(y, leaves, upstream), gradients, strict=True):
            assert (mine - theirs).abs().max() < 1e-12


@pytest.mark.slow
def test_second_derivatives_are_right() -> None:
    x = torch.randn(1, 3, 2, dtype=torch.float64, requires_grad=True)
    weights = [torch.randn(6, 2, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    biases = [torch.randn(6, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    inputs = (x, *weights, *biases)
    assert torch.autograd.gradcheck(lambda *leaves: gru_sequence(leaves[0], leaves[1:]), inputs)
    assert torch.autograd.gradgradcheck(lambda *leaves: gru_sequence(leaves[0], leaves[1:]), inputs)
