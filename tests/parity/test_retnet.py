"""Retention against torchscale's, the authors' own (installed with --no-deps: only its retention is imported)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headtohead.components.component import Context
from headtohead.components.mixers.linear.retention import Retention
from parity.parity import REPORTS, TOLERANCE, Errors, Report

theirs = pytest.importorskip("torchscale.component.multiscale_retention", reason="torchscale is not installed")
D_MODEL, NUM_HEADS, LENGTH = 32, 4, 70
NAMES = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "gate": "g_proj", "output": "out_proj"}


def pair(dtype: torch.dtype, eps: float) -> tuple[Retention, nn.Module]:
    """Return both with the same weights, redrawn."""
    torch.manual_seed(0)
    options = SimpleNamespace(multiway=False, layernorm_eps=eps)
    reference = theirs.MultiScaleRetention(options, D_MODEL, 2 * D_MODEL, NUM_HEADS).to(dtype)
    mixer = Retention(D_MODEL, num_heads=NUM_HEADS, causal=True, eps=eps).to(dtype)
    with torch.no_grad():
        for ours, their in NAMES.items():
            weight = getattr(reference, their).weight
            weight.copy_(torch.randn(weight.shape, dtype=torch.float64) * weight.shape[1] ** -0.5)
            getattr(mixer, ours).weight.copy_(weight)
    return mixer, reference


def relative_positions(dtype: torch.dtype) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Rotations and decays as the paper has them (its decoder, which holds them, does not import without fairscale)."""
    positions = torch.arange(LENGTH, dtype=dtype)
    rates = 10000.0 ** -torch.linspace(0, 1, D_MODEL // NUM_HEADS // 2, dtype=dtype)
    angles = (positions[:, None] * rates).repeat_interleave(2, dim=1)
    decay = 1.0 - 2.0 ** (-5.0 - torch.arange(NUM_HEADS, dtype=dtype))
    distance = positions[:, None] - positions
    mask = torch.where(distance >= 0, decay[:, None, None] ** distance.clamp(min=0), 0.0)
    return (angles.sin(), angles.cos()), mask / mask.sum(-1, keepdim=True).sqrt()


def differences(dtype: torch.dtype) -> Errors:
    mixer, reference = pair(dtype, eps=0.0)
    x, weights = (torch.randn(2, LENGTH, D_MODEL, dtype=dtype) for _ in range(2))
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    y = mixer(inputs[0], Context())
    expected = reference(inputs[1], relative_positions(dtype))
    for output in (y, expected):
        (output * weights).sum().backward()
    gradients = [(inputs[0].grad, inputs[1].grad)]
    for ours, their in NAMES.items():
        gradients.append((getattr(mixer, ours).weight.grad, getattr(reference, their).weight.grad))
    assert len(gradients) == 1 + len(list(reference.parameters())) == 1 + len(list(mixer.parameters()))
    worst = max(float((one - other).abs().max() / other.abs().max().clamp(min=1)) for one, other in gradients)
    return Errors(float((y - expected).detach().abs().max()), worst)


def test_retention_is_that_of_its_authors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison sets eps to 0, since ours leaves out the divisions that the norm undoes; the reference casts to
    float32 inside."""
    errors = {torch.float32: differences(torch.float32)}
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    errors[torch.float64] = differences(torch.float64)
    for dtype, result in errors.items():
        assert max(result.logits, result.gradients) < TOLERANCE[dtype], f"{dtype}: {result}"
    weights = [weight.numel() for weight in pair(torch.float32, eps=0.0)[0].parameters()]
    remark = "the mixer alone, with eps 0: divisions of the weights that the norm undoes are left out"
    REPORTS.append(Report("RetNet's retention", "MultiScaleRetention", errors, len(weights), sum(weights), remark))


def test_the_usual_eps_changes_little() -> None:
    mixer, reference = pair(torch.float32, eps=1e-6)
    x = torch.randn(2, LENGTH, D_MODEL)
    with torch.no_grad():
        result = (mixer(x, Context()) - reference(x, relative_positions(torch.float32))).abs().max()
    assert float(result) < 1e-3
