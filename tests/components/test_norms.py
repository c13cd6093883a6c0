"""Norms against torch's own and against their formulas."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headtohead.architectures.operation_counter import saved_bytes
from headtohead.components.block_parts import Norm
from headtohead.components.checkpointing import recompute
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.norms import BatchNorm, LayerNorm, NoNorm, RmsNorm, RmsScale


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3.0 * torch.randn(*shape, generator=generator, dtype=torch.float64) + 1.0


def test_rms_norm_is_its_formula_and_torchs() -> None:
    x, norm = rows(2, 5, 8), RmsNorm(8, eps=1e-3).double()
    norm.scale.weight.data = rows(8, seed=1)
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt() * norm.scale.weight
    torch.testing.assert_close(norm(x, Context()), expected)
    torch.testing.assert_close(expected, nn.functional.rms_norm(x, (8,), norm.scale.weight, 1e-3))


def test_rms_norms_own_backward_is_the_derivative() -> None:
    scale = RmsScale(6, eps=1e-2).double()

    def f(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(scale, {"weight": weight}, (x,))

    inputs = (rows(2, 3, 6).requires_grad_(), rows(6, seed=1).requires_grad_())
    assert torch.autograd.gradcheck(f, inputs)
    assert torch.autograd.gradgradcheck(f, inputs)


def test_rms_norm_keeps_the_type_and_computes_half_precision_in_single() -> None:
    x = rows(1, 4, 512).to(torch.bfloat16)
    y = RmsNorm(512)(x, Context())
    assert y.dtype == torch.bfloat16
    exact = RmsNorm(512)(x.float(), Context())
    torch.testing.assert_close(y.float(), exact, rtol=2**-8, atol=0)


def test_batch_norm_is_torchs_on_flattened_tokens_statistics_included() -> None:
    ours, theirs = BatchNorm(6).double(), nn.BatchNorm1d(6).double()
    for step in range(3):
        x = rows(4, 5, 6, seed=step)
        torch.testing.assert_close(ours(x, Context()), theirs(x.flatten(0, 1)).view_as(x))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_variance, theirs.running_var)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x, Context()), theirs(x.flatten(0, 1)).view_as(x))


def test_batch_norm_counts_valid_tokens_alone() -> None:
    x, valid = rows(3, 5, 6), torch.arange(5)[None] < torch.tensor([[5], [2], [4]])
    padded, plain = BatchNorm(6).double(), nn.BatchNorm1d(6).double()
    torch.testing.assert_close(padded(x, Context(valid=valid))[valid], plain(x[valid]))
    torch.testing.assert_close(padded.running_mean, plain.running_mean)
    torch.testing.assert_close(padded.running_variance, plain.running_var)


@pytest.mark.parametrize("padded", [False, True])
def test_batch_norm_under_checkpointing_updates_its_statistics_once(padded: bool) -> None:
    x = rows(3, 5, 6).requires_grad_()
    context = Context(valid=torch.arange(5)[None].expand(3, -1) < 4 if padded else None)
    plain, checkpointed = BatchNorm(6).double(), BatchNorm(6).double()
    y, again = plain(x, context), recompute(checkpointed, x, context)
    gradient, same = (torch.autograd.grad(out.square().sum(), x)[0] for out in (y, again))
    assert torch.equal(gradient, same)
    assert torch.equal(plain.running_mean, checkpointed.running_mean)
    assert torch.equal(plain.running_variance, checkpointed.running_variance)


def test_batch_norm_takes_a_batch_of_one_token_as_its_mean() -> None:
    norm = BatchNorm(6).double()
    norm.bias.data = rows(6, seed=1)
    x = rows(1, 1, 6).requires_grad_()
    y = norm(x, Context())
    y.sum().backward()
    assert torch.equal(y[0, 0], norm.bias)
    assert x.grad is not None and not x.grad.any()


def test_batch_norm_sees_later_tokens_in_training_only() -> None:
    norm, x = BatchNorm(6).double(), rows(2, 5, 6)
    other = x.clone()
    other[:, 3:] += 1.0
    assert not torch.allclose(norm(x, Context())[:, :3], norm(other, Context())[:, :3])
    norm.eval()
    assert torch.equal(norm(x, Context())[:, :3], norm(other, Context())[:, :3])


@pytest.mark.parametrize("norm", [LayerNorm(8), LayerNorm(8, bias=False), RmsNorm(8), BatchNorm(8), NoNorm(8)], ids=str)
def test_norms_declare_their_parameters_and_what_autograd_saves(norm: Norm) -> None:
    norm = norm.float()
    x = rows(1, 7, 8).float().requires_grad_()
    with saved_bytes(norm) as saved:
        y = norm(x, Context())
    declared = norm.costs(CostContext(7))
    assert declared.activation_bytes == saved(), y.shape
    assert declared.parameters == sum(p.numel() for p in norm.parameters())
    assert declared.forward_flops == 0


@pytest.mark.parametrize("norm", [LayerNorm(8), RmsNorm(8), BatchNorm(8)], ids=lambda norm: type(norm).__name__)
def test_norms_start_as_plain_normalisation_again(norm: Norm) -> None:
    fresh = {name: tensor.clone() for name, tensor in norm.state_dict().items()}
    with torch.no_grad():
        for tensor in norm.state_dict().values():
            tensor.fill_(0.7)
    for module in norm.modules():
        module.reset_parameters()
    for name, tensor in norm.state_dict().items():
        assert torch.equal(tensor, fresh[name]), name
