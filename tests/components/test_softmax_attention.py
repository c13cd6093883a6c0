"""Softmax attention beyond the laws: the options against each other, empty masks, caches, and what is refused."""

from __future__ import annotations

import pytest
import torch

from from_fields import from_fields
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.mixers.attention.softmax_cross_attention import SoftmaxCrossAttention
from headtohead.components.mixers.reference.attention import ReferenceSoftmaxAttention as SlowAttention
from headtohead.components.positions.relative import Shaw
from headtohead.components.sequence_ops import score_masks


def test_queries_of_the_walk_through_come_out_as_by_hand() -> None:
    x = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8], [0.9, 1.0, 1.1, 1.2]])
    w = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]])
    mixer = SoftmaxAttention(4, num_heads=1, causal=False, heads=AttentionHeads(bias=False))
    with torch.no_grad():
        mixer.query.weight.copy_(w.T)
    q, _, _ = mixer.project(x[None], Context())
    torch.testing.assert_close(q[0, 0, 0], torch.tensor([0.4, 0.5, 0.5, 0.6]))


@pytest.mark.parametrize("causal", [True, False])
def test_one_head_is_the_papers_formula(causal: bool) -> None:
    torch.manual_seed(0)
    mixer = SoftmaxAttention(6, num_heads=1, causal=causal).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    q, k, v = mixer.query(x), mixer.key(x), mixer.value(x)
    logits = q @ k.mT / 6**0.5
    if causal:
        logits = logits.masked_fill(~torch.ones(5, 5).tril().bool(), float("-inf"))
    torch.testing.assert_close(mixer(x, Context()), mixer.output(logits.softmax(-1) @ v))


@pytest.mark.parametrize("scale", [None, 0.7])
def test_a_bias_from_queries_is_scaled_with_the_scores(scale: float | None) -> None:
    """The expected scores are q (k + a) / sqrt(K) (Shaw et al. 2018, equation 5)."""
    torch.manual_seed(0)
    mixer = SoftmaxAttention(6, num_heads=1, causal=True, heads=AttentionHeads(scale=scale)).double()
    shaw = Shaw(6, num_heads=1, max_length=None, causal=True, max_distance=2).double()
    x, indices = torch.randn(2, 5, 6, dtype=torch.float64), torch.arange(5)[None]
    relative = shaw.table[(indices - indices.T).clamp(-2, 0) + 2]
    q, k, v = mixer.query(x), mixer.key(x), mixer.value(x)
    logits = (q[:, :, None] * (k[:, None] + relative)).sum(-1) * (6**-0.5 if scale is None else scale)
    logits = logits.masked_fill(~torch.ones(5, 5).tril().bool(), float("-inf"))
    context = score_masks.with_score_masks(Context(positions=indices, encoding=shaw), x, causal=True)
    torch.testing.assert_close(mixer(x, context), mixer.output(logits.softmax(-1) @ v))


def test_grouped_heads_are_full_heads_with_repeated_keys_and_values() -> None:
    torch.manual_seed(0)
    grouped = SoftmaxAttention(16, num_heads=4, causal=True, heads=AttentionHeads(num_kv_heads=2)).double()
    full = SoftmaxAttention(16, num_heads=4, causal=True).double()
    weights = grouped.state_dict()
    for name in ("key", "value"):
        for kind in ("weight", "bias"):
            per_head = weights[f"{name}.{kind}"].unflatten(0, (2, 4))
            weights[f"{name}.{kind}"] = per_head.repeat_interleave(2, 0).flatten(0, 1)
    full.load_state_dict(weights)
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    segments = Context(segments=torch.tensor([[0, 0, 0, 1, 1, 1, 1]]).expand(2, -1))
    for context in (Context(), score_masks.with_score_masks(segments, x, causal=True)):
        torch.testing.assert_close(grouped(x, context), full(x, context))


def test_qk_norm_makes_scores_blind_to_the_size_of_tokens() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 5, 16)
    for qk_norm in (True, False):
        mixer = SoftmaxAttention(16, num_heads=4, causal=False, heads=AttentionHeads(bias=False, qk_norm=qk_norm))
        q, k, _ = mixer.project(x, Context())
        q_large, k_large, _ = mixer.project(100 * x, Context())
        assert torch.allclose(q @ k.mT, q_large @ k_large.mT, atol=1e-3) == qk_norm


@pytest.mark.parametrize("kind", [SoftmaxAttention, SlowAttention])
def test_rows_that_may_attend_nowhere_give_zero_and_finite_gradients(kind: type[SoftmaxAttention]) -> None:
    mixer = kind(8, num_heads=2, causal=False, heads=AttentionHeads(bias=False))
    x = torch.randn(2, 4, 8, requires_grad=True)
    valid = torch.tensor([[True] * 4, [False] * 4])
    y = mixer(x, score_masks.with_score_masks(Context(valid=valid), x, causal=False))
    y.square().sum().backward()
    assert not y[1].any() and y[0].abs().sum() > 0
    assert x.grad is not None and x.grad.isfinite().all()


def test_an_empty_memory_gives_zero_and_finite_gradients() -> None:
    cross = SoftmaxCrossAttention(8, num_heads=2, bias=False)
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 4, 8, requires_grad=True)
    valid = torch.tensor([[True, True, False, False], [False] * 4])
    y = cross(x, Context(memory=memory, memory_valid=valid))
    y.square().sum().backward()
    assert not y[1].any() and y[0].abs().sum() > 0
    assert memory.grad is not None and memory.grad.isfinite().all()
    assert memory.grad[0, :2].any() and not memory.grad[0, 2:].any()


def test_cross_attention_without_a_memory_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match=r"needs context\.memory"):
        SoftmaxCrossAttention(8, num_heads=2)(torch.randn(1, 3, 8), Context())


def test_dropout_acts_on_weights_in_training_alone() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 6, 8)
    for mixer in (SoftmaxAttention(8, num_heads=2, causal=True, dropout=0.5),):
        assert not torch.equal(mixer(x, Context()), mixer(x, Context()))
        mixer.eval()
        assert torch.equal(mixer(x, Context()), mixer(x, Context()))


def test_pure_causality_needs_no_mask_and_no_bias() -> None:
    """The fast kernel takes causality as a flag only where there is no mask; padding on the right needs none."""
    x = torch.randn(2, 5, 8)
    valid = torch.ones(2, 5, dtype=torch.bool)
    assert score_masks.with_score_masks(Context(valid=valid), x, causal=True).bias is None
    assert score_masks.with_score_masks(Context(), x, causal=False).bias is None
    assert score_masks.with_score_masks(Context(valid=valid), x, causal=False).bias is not None


def test_masks_are_made_in_the_type_of_the_scores() -> None:
    x, valid = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    with torch.autocast("cpu", torch.bfloat16):
        bias = score_masks.with_score_masks(Context(valid=valid), x, causal=False).bias
    assert bias is not None and bias.dtype == torch.bfloat16


def test_a_state_that_is_full_says_so() -> None:
    mixer = SoftmaxAttention(8, num_heads=2, causal=True)
    state = mixer.initial_state(1, 3, device=torch.device("cpu"), dtype=torch.float32)
    with pytest.raises(ValueError, match="4 tokens do not fit a state made for max_length=3"):
        mixer.step(torch.randn(1, 4, 8), state, Context())


@pytest.mark.parametrize("kind", [SoftmaxAttention, SoftmaxCrossAttention])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_heads": 3}, "num_heads=3 does not divide d_model=8"),
        ({"num_heads": 0}, "num_heads=0 does not divide d_model=8"),
        ({"num_heads": 4, "num_kv_heads": 3}, "num_kv_heads=3 does not divide num_heads=4"),
        ({"num_heads": 4, "num_kv_heads": 0}, "num_kv_heads=0 does not divide num_heads=4"),
    ],
)
def test_heads_that_do_not_divide_are_refused(kind: type, options: dict, sentence: str) -> None:
    causal = {"causal": True} if kind is SoftmaxAttention else {}
    with pytest.raises(ValueError, match=sentence):
        from_fields(kind, d_model=8, **options, **causal)


@pytest.mark.parametrize(
    ("causal", "num_kv_heads", "expected"),
    [(True, 4, 8 * 16**2 * 10 + 2 * 10 * 11 * 16), (False, 4, 8 * 16**2 * 10 + 4 * 10 * 10 * 16),
     (False, 1, 4 * 16**2 * (1 + 0.25) * 10 + 4 * 10 * 10 * 16)],
)  # fmt: skip
def test_declared_flops_are_those_of_the_textbook(causal: bool, num_kv_heads: int, expected: int) -> None:
    mixer = SoftmaxAttention(16, num_heads=4, causal=causal, heads=AttentionHeads(num_kv_heads=num_kv_heads))
    costs = mixer.costs(CostContext(10))
    assert costs.forward_flops == expected and costs.training_flops == 3 * expected
    assert costs.state_elements == 2 * 10 * num_kv_heads * 4


def test_cross_attention_reads_its_memory_once_for_all_steps() -> None:
    cross = SoftmaxCrossAttention(16, num_heads=4)
    assert cross.costs(CostContext(10, 7)).forward_flops == 4 * 10 * 16**2 + 4 * 7 * 16**2 + 4 * 10 * 7 * 16
