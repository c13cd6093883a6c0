"""Mixers compute what their attention maps say, with every position encoding, in both directions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from contracts.choices import agree, can_look, factory, kind_of, names
from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, Mixer
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.mixers.attention.softmax_cross_attention import SoftmaxCrossAttention
from headtohead.components.norms import NoNorm
from headtohead.components.sequence_ops.score_masks import with_score_masks
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackParts, StackSize
from headtohead.diagnostics.laws import LawBroken, LawSubject, alone
from headtohead.diagnostics.laws.attention_laws import explicit_attention
from headtohead.diagnostics.laws.law_subject import BareResidual, PassThrough

FOR_IMAGES = ("sinusoidal_2d", "rotary_2d")
CASES = [
    (mixer, position, causal)
    for mixer, position, causal in product(names("mixer"), names("position"), (True, False))
    if issubclass(factory("mixer", mixer).func, HasAttentionMaps)
    and can_look(factory("mixer", mixer), causal=causal)
    and agree(factory("mixer", mixer), factory("position", position))
    and not (causal and position in FOR_IMAGES)
]


def with_position(mixer: str, position: str, *, causal: bool, **options: Any) -> Stack:
    return Stack(
        StackSize(16, 2, 4),
        StackParts(
            mixer=factory("mixer", mixer, **options),
            position=factory("position", position),
            norm=NoNorm,
            residual=BareResidual,
            feedforward=PassThrough,
        ),
        causal=causal,
        max_length=11,
        grid=(2, 5) if position in FOR_IMAGES else None,
    )


def case(mixer: str, position: str, *, causal: bool) -> object:
    """Check every mixer, and every position with one mixer; all others together are slow, and their shapes the same."""
    is_first = position == "none" or mixer == "softmax_attention"
    marks = [] if is_first else [pytest.mark.slow, pytest.mark.shapes(False), pytest.mark.sampled(80)]
    return pytest.param(mixer, position, causal, marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mixer", "position", "causal"), [case(mixer, position, causal=causal) for mixer, position, causal in CASES]
)
def test_attention_is_what_the_mixer_does(mixer: str, position: str, causal: bool) -> None:
    explicit_attention(LawSubject(partial(with_position, mixer, position, causal=causal)))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("position", ["none", "rotary", "alibi", "shaw"])
@pytest.mark.parametrize("mixer", ["softmax_attention", "sliding_window"])
def test_attention_with_capped_scores_is_what_the_mixer_does(mixer: str, position: str, causal: bool) -> None:
    options = {"score_cap": 0.5, "scale": 1.0, "num_kv_heads": 2}
    explicit_attention(LawSubject(partial(with_position, mixer, position, causal=causal, **options)))


def test_every_mixer_with_scores_can_show_them() -> None:
    for name in names("mixer"):
        mixer = kind_of(factory("mixer", name))
        assert issubclass(mixer, HasAttentionMaps) or not mixer.reads_scores, f"{name} has scores and shows none"


class LooksAhead(SoftmaxAttention):
    def attention(self, x: Tensor, context: Context, *, causal: bool | None = None) -> Tensor:
        return super().attention(x, context, causal=False)


class ForgetsTheEncoding(SoftmaxAttention):
    def attention(self, x: Tensor, context: Context, *, causal: bool | None = None) -> Tensor:
        bare = replace(context, rotation=None)
        return super().attention(x, bare, causal=causal)


class ForgetsToScale(SoftmaxAttention):
    def attention(self, x: Tensor, context: Context, *, causal: bool | None = None) -> Tensor:
        self.scale, scale = 1.0, self.scale
        weights = super().attention(x, context, causal=causal)
        self.scale = scale
        return weights


class LetsDocumentsMix(SoftmaxAttention):
    """A mixer that drops the other masks together with the causal one."""

    def attention(self, x: Tensor, context: Context, *, causal: bool | None = None) -> Tensor:
        if causal is None or causal == self.causal:
            return super().attention(x, context)
        return super().attention(x, replace(context, segments=None), causal=causal)


class SharesMoreThanItHas(SoftmaxAttention):
    """Right in what comes out, as gates would make it, but no shares."""

    def attention(self, x: Tensor, context: Context, *, causal: bool | None = None) -> Tensor:
        return 2.0 * super().attention(x, context, causal=causal)

    def mixed(self, weights: Tensor, x: Tensor, context: Context) -> Tensor:
        return super().mixed(weights / 2.0, x, context)


class ReadsThePaddingOfTheMemory(SoftmaxCrossAttention):
    def attention(self, x: Tensor, context: Context, *, causal: bool | None = None) -> Tensor:
        return super().attention(x, replace(context, memory_valid=None), causal=causal)


@pytest.mark.parametrize(
    ("fault", "position", "message"),
    [
        (LooksAhead, "none", "must give the outputs"),
        (ForgetsTheEncoding, "rotary", "must give the outputs"),
        (ForgetsToScale, "alibi", "must give the outputs"),
        (LetsDocumentsMix, "none", "must have no weight"),
        (SharesMoreThanItHas, "none", "must sum to 1"),
    ],
)
def test_the_law_catches(fault: type[Mixer], position: str, message: str) -> None:
    with pytest.raises(LawBroken, match=message):
        explicit_attention(LawSubject(alone(fault, causal=True, position=factory("position", position))))


def test_the_law_catches_a_cross_mixer_that_reads_padding() -> None:
    stack = alone(SoftmaxAttention, causal=True, cross=ReadsThePaddingOfTheMemory)
    with pytest.raises(LawBroken, match="must give the outputs"):
        explicit_attention(LawSubject(stack))


class Mean(SoftmaxAttention):
    """A mixer of implicit attention: weights that are not shares, some of them negative."""

    sums_to_one = False

    def attention(self, x: Tensor, context: Context, *, causal: bool | None = None) -> Tensor:
        q, k, _ = self.project(x, context)
        causal = self.causal if causal is None else causal
        bias = with_score_masks(context, x, causal=causal).bias
        scores = q @ k.mT
        if causal:
            scores = scores.tril()
        return scores if bias is None else scores.masked_fill(bias == float("-inf"), 0.0)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.mixed(self.attention(x, context), x, context)


@pytest.mark.parametrize("causal", [True, False])
def test_implicit_attention_obeys_the_same_law(causal: bool) -> None:
    subject = LawSubject(alone(Mean, causal=causal))
    explicit_attention(subject)
    stack = subject.build()
    x, context = subject.inputs(stack)
    weights = stack.layers[0].mixer.attention(x, context)  # type: ignore[attr-defined]
    assert weights.min() < 0


def test_a_query_that_may_attend_nowhere_has_no_weights() -> None:
    stack = LawSubject(alone(SoftmaxAttention, causal=False)).build()
    mixer = stack.layers[0].mixer
    assert isinstance(mixer, HasAttentionMaps)
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    nowhere = with_score_masks(Context(valid=torch.tensor([[True] * 5, [False] * 5])), x, causal=False)
    weights = mixer.attention(x, nowhere)
    assert torch.equal(weights[1], torch.zeros_like(weights[1]))
    assert torch.allclose(weights[0].sum(-1), torch.ones((), dtype=torch.float64))


def test_heads_that_share_keys_are_shown_one_by_one() -> None:
    grouped = partial(SoftmaxAttention, heads=AttentionHeads(num_kv_heads=2))
    stack = LawSubject(alone(grouped, causal=True)).build()
    mixer = stack.layers[0].mixer
    assert isinstance(mixer, HasAttentionMaps)
    weights = mixer.attention(torch.randn(1, 6, 16, dtype=torch.float64), Context())
    assert weights.shape == (1, 4, 6, 6)
    assert not torch.allclose(weights[:, 0], weights[:, 1])
