"""Long convolutions by transform against the sums that they are, and what they count."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from contracts.choices import factory
from headtohead.architectures.operation_counter import counting
from headtohead.components.costs import CostContext
from headtohead.components.sequence_ops.fft_convolution import convolved, transform_flops


def drawn(length: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    shapes = ((2, length, 3), (length, 3), (length, 3))
    x, ahead, behind = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return x.requires_grad_(), ahead.requires_grad_(), behind.requires_grad_()


def summed(x: Tensor, ahead: Tensor, behind: Tensor | None) -> Tensor:
    length = x.shape[1]
    index = torch.arange(length)
    gap = index[:, None] - index
    response = torch.where(gap[..., None] >= 0, ahead[gap.clamp(min=0)], 0.0)
    if behind is not None:
        response = response + torch.where(gap[..., None] < 0, behind[(-gap).clamp(min=0)], 0.0)
    return torch.einsum("tsd,bsd->btd", response, x)


@pytest.mark.parametrize("length", [1, 2, 13, 64])
@pytest.mark.parametrize("both_sides", [True, False])
def test_transforms_give_the_sum_and_its_gradients(length: int, both_sides: bool) -> None:
    x, ahead, back = drawn(length)
    behind = back if both_sides else None
    y, expected = convolved(x, ahead, behind), summed(x, ahead, behind)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    provided = (x, ahead)
    gradients = torch.autograd.grad((y * weights).sum(), provided)
    wished = torch.autograd.grad((expected * weights).sum(), provided)
    for actual, right in zip((y, *gradients), (expected, *wished), strict=True):
        assert torch.allclose(actual, right, rtol=1e-10, atol=1e-12)


def test_half_precision_is_convolved_in_single() -> None:
    x, ahead, _ = (tensor.detach() for tensor in drawn(64))
    half = convolved(x.bfloat16(), ahead.float())
    assert half.dtype == torch.bfloat16
    assert torch.allclose(half, convolved(x.bfloat16().float(), ahead.float()).bfloat16())


def test_a_transform_counts_five_halves_n_log_n_each_way() -> None:
    x, ahead, _ = drawn(8)
    with counting() as forward:
        y = convolved(x[:1], ahead)
    with counting() as backward:
        y.sum().backward()
    assert forward.products == backward.products == 3 * transform_flops(8, 3) == 3 * 2.5 * 3 * 16 * 4


def test_hyena_costs_a_token_of_a_sequence_sixteen_times_as_long_a_tenth_more_at_most() -> None:
    mixer = factory("mixer", "hyena")(64, num_heads=1, causal=True)
    short = CostContext(512)
    long = replace(short, length=8192)
    per_token = [mixer.costs(query).forward_flops / query.length for query in (short, long)]
    assert per_token[0] < per_token[1] < 1.1 * per_token[0]
