"""Soft caps by hand: of attention scores, before biases and masks, and of numbers in half precision."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.mixers.attention.sliding_window import SlidingWindow
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.sequence_ops.score_masks import with_score_masks
from headtohead.components.soft_cap import soft_capped
from small_models import redraw

CAP = 0.7
X = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("causal", [True, False])
def test_scores_are_capped_before_the_bias_is_added(causal: bool) -> None:
    heads = AttentionHeads(scale=3.0)
    mixer = redraw(SoftmaxAttention(8, num_heads=1, causal=causal, score_cap=CAP, heads=heads).double())
    bias = torch.randn(1, 1, 6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 5
    if causal:
        bias = bias.masked_fill(~torch.ones(6, 6).tril().bool(), float("-inf"))
    scores = 3.0 * (mixer.query(X) @ mixer.key(X).mT)
    assert scores.abs().max() > 2 * CAP
    weights = (CAP * (scores / CAP).tanh() + bias[0]).softmax(-1)
    torch.testing.assert_close(mixer(X, Context(bias=bias)), mixer.output(weights @ mixer.value(X)))


def test_a_cap_far_above_the_scores_changes_nothing() -> None:
    for kind in (SoftmaxAttention, SlidingWindow):
        capped = redraw(kind(8, num_heads=2, causal=True, score_cap=1e6, heads=AttentionHeads(num_kv_heads=1)).double())
        plain = kind(8, num_heads=2, causal=True, heads=AttentionHeads(num_kv_heads=1)).double()
        plain.load_state_dict(capped.state_dict())
        torch.testing.assert_close(capped(X, Context()), plain(X, Context()))


@pytest.mark.parametrize("kind", [SoftmaxAttention, SlidingWindow])
def test_a_row_of_padding_alone_gives_numbers_and_gradients(kind: type[SoftmaxAttention]) -> None:
    mixer = redraw(kind(8, num_heads=2, causal=False, score_cap=CAP).double())
    valid = torch.tensor([[True] * 6, [False] * 6])
    context = replace(with_score_masks(Context(valid=valid), X, causal=False), valid=valid)
    y = mixer(X, context)
    torch.testing.assert_close(y[:1], mixer(X[:1], Context()))
    torch.testing.assert_close(y[1], mixer.output(torch.zeros_like(X[1])))
    y.sum().backward()
    assert all(_finite(parameter.grad) for parameter in mixer.parameters())


def _finite(gradient: Tensor | None) -> bool:
    return gradient is not None and bool(gradient.isfinite().all())


def test_dropout_falls_on_the_weights_of_capped_scores() -> None:
    mixer = redraw(SoftmaxAttention(8, num_heads=2, causal=True, dropout=0.9, score_cap=CAP).double())
    torch.manual_seed(0)
    assert not torch.allclose(mixer(X, Context()), mixer(X, Context()))
    mixer.eval()
    torch.testing.assert_close(mixer(X, Context()), mixer(X, Context()))


def test_half_precision_is_rounded_once() -> None:
    x = torch.linspace(-90, 90, 1001).bfloat16()
    torch.testing.assert_close(soft_capped(x, 30.0), soft_capped(x.double(), 30.0).bfloat16(), rtol=0, atol=0)
    assert soft_capped(x, None) is x
