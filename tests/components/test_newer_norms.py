"""Dynamic tanh, dynamic erf and adaptive norm: equations, what they may know, how they start, in every place."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch

from contracts.choices import names
from contracts.test_stack_laws import Combination, check
from headtohead.architectures.architecture import InputSize
from headtohead.architectures.ledger import ledger
from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.adaptive_norm import AdaptiveNorm, SummaryState
from headtohead.components.block_parts import Norm
from headtohead.components.checkpointing import Checkpointing
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.initialisations import gpt2, t5, xavier
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.norms import DynamicErf, DynamicTanh, LayerNorm
from headtohead.diagnostics.laws import cost_laws, equivalence_laws, masking_laws
from headtohead.generation.decoding_loop import greedy
from small_models import exact_model, redraw, small_model

FAMILIES = ("decoder_only", "encoder_only", "encoder_decoder", "vision_transformer")
NEWER = (AdaptiveNorm, DynamicErf, DynamicTanh)
TEXT = InputSize(length=11, decoder_length=7)


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def adaptive(width: int = 8, *, summary_width: int = 3) -> AdaptiveNorm:
    norm = redraw(AdaptiveNorm(width, summary_width=summary_width).double())
    assert isinstance(norm, AdaptiveNorm)
    return norm


def by_hand(norm: AdaptiveNorm, x: torch.Tensor, seen: list[list[int]]) -> torch.Tensor:
    """Normalise one row, token by token; `seen[index]` are the positions that a token may know of."""
    normed = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
    message = torch.tanh(normed @ norm.reader.T + norm.reader_bias)
    out = []
    for index, others in enumerate(seen):
        mean = sum(message[other] for other in others) / len(others)
        gain, shift = (norm.modulation @ mean).split(x.shape[-1])
        out.append(normed[index] * (norm.weight + gain) + norm.bias + shift)
    return torch.stack(out)


def test_dynamic_tanh_is_its_formula() -> None:
    norm, x = redraw(DynamicTanh(8).double()), rows(2, 5, 8)
    torch.testing.assert_close(norm(x, Context()), norm.weight * torch.tanh(norm.alpha * x) + norm.bias)


def test_dynamic_tanh_starts_with_the_given_alpha() -> None:
    norm, x = DynamicTanh(8, initial_alpha=0.25).double(), rows(2, 5, 8)
    torch.testing.assert_close(norm(x, Context()), torch.tanh(x / 4))


def test_dynamic_erf_is_the_integral_of_its_bell() -> None:
    """Integrate 2/sqrt(pi) exp(-t^2) from 0 to a x + s by Simpson's rule, which knows nothing of torch's erf."""
    norm, x = redraw(DynamicErf(8).double()), rows(2, 5, 8)
    end = norm.alpha * x + norm.shift
    steps = torch.linspace(0, 1, 201, dtype=torch.float64)
    factors = torch.tensor([1.0, *([4.0, 2.0] * 99), 4.0, 1.0], dtype=torch.float64) / 600
    area = (torch.exp(-((end[..., None] * steps) ** 2)) @ factors) * end
    expected = norm.weight * area * 2 / math.sqrt(math.pi) + norm.bias
    torch.testing.assert_close(norm(x, Context()), expected, rtol=1e-7, atol=1e-9)


def test_dynamic_erf_starts_with_the_given_alpha_and_shift() -> None:
    norm, x = DynamicErf(8, initial_alpha=0.25, initial_shift=-0.5).double(), rows(2, 5, 8)
    torch.testing.assert_close(norm(x, Context()), torch.erf(x / 4 - 0.5))


@pytest.mark.parametrize(
    ("context", "seen"),
    [
        (Context(), [[0, 1, 2, 3, 4, 5]] * 6),
        (Context(causal=True), [list(range(position + 1)) for position in range(6)]),
        (Context(valid=torch.tensor([[True] * 4 + [False] * 2])), [[0, 1, 2, 3]] * 6),
        (Context(segments=torch.tensor([[7, 7, 2, 2, 2, 5]])), [[0, 1]] * 2 + [[2, 3, 4]] * 3 + [[5]]),
        (
            Context(segments=torch.tensor([[0, 0, 1, 1, 1, 2]]), causal=True),
            [[0], [0, 1], [2], [2, 3], [2, 3, 4], [5]],
        ),
        (
            Context(segments=torch.tensor([[0, 0, 1, 1, 1, 1]]), valid=torch.tensor([[True] * 4 + [False] * 2])),
            [[0, 1]] * 2 + [[2, 3]] * 4,
        ),
    ],
    ids=["all", "causal", "padded", "packed", "packed-causal", "packed-padded"],
)
def test_adaptive_norm_sums_up_what_a_token_may_know(context: Context, seen: list[list[int]]) -> None:
    norm, x = adaptive(), rows(1, 6, 8)
    torch.testing.assert_close(norm(x, context)[0], by_hand(norm, x[0], seen), rtol=1e-10, atol=1e-12)


def test_adaptive_norm_starts_as_layer_norm_whatever_the_initialisation() -> None:
    x = rows(2, 6, 16)
    for initialise in (gpt2, xavier, t5):
        model = small_model("decoder_only", norm=AdaptiveNorm, initialisation=initialise).double()
        norm = model.stack.final_norm
        assert isinstance(norm, AdaptiveNorm) and norm.reader.any()
        torch.testing.assert_close(norm(x, Context(causal=True)), LayerNorm(16).double()(x, Context()))


def test_packed_short_documents_in_a_long_row_lose_no_precision() -> None:
    norm = adaptive().float()
    x = rows(1, 8192, 8).float() + 2.0
    segments = (torch.arange(8192) // 4)[None]
    packed = norm(x, Context(segments=segments, causal=True))
    apart = norm(x.view(-1, 4, 8), Context(causal=True))
    torch.testing.assert_close(packed.view_as(apart), apart, rtol=1e-5, atol=1e-5)


def test_decoding_with_padding_on_the_left_sums_up_real_tokens_alone() -> None:
    norm, x = adaptive(), rows(1, 6, 8)
    state: Any = norm.initial_state(1, device=x.device, dtype=x.dtype)
    valid = torch.tensor([[False, False, True, True, True, True]])
    parts = []
    for start, end in ((0, 3), (3, 4), (4, 6)):
        y, state = norm.step(x[:, start:end], state, Context(valid=valid[:, start:end], causal=True))
        parts.append(y)
    assert isinstance(state, SummaryState) and state.count is not None and state.count.item() == 4
    torch.testing.assert_close(torch.cat(parts, 1)[:, 2:], norm(x[:, 2:], Context(causal=True)))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", NEWER)
def test_norms_declare_what_they_cost(kind: type[Norm], causal: bool) -> None:
    norm = kind(8)
    x = rows(1, 7, 8).float().requires_grad_()
    with saved_bytes(norm) as saved, counting() as forward:
        y = norm(x, Context(causal=causal))
    with counting() as backward:
        y.sum().backward()
    declared = norm.costs(CostContext(7, causal=causal))
    assert declared.activation_bytes == pytest.approx(saved(), rel=0.02)
    assert declared.parameters == sum(p.numel() for p in norm.parameters())
    assert (declared.forward_flops, declared.training_flops) == (forward.products, forward.products + backward.products)


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("residual", names("residual"))
def test_adaptive_norm_keeps_its_state_and_its_secrets_in_every_wiring(residual: str) -> None:
    choices = ("softmax_attention", "none", "rotary", "adaptive", residual, "gelu")
    subject = Combination(choices, choices[0], True, "softmax_attention", torch.float64, embedding_norm=True).subject()
    for law in (
        equivalence_laws.stepwise,
        masking_laws.causality,
        masking_laws.packed_documents,
        cost_laws.declared_flops,
    ):
        law(subject)
    cost_laws.declared_state(subject)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["adaptive", "dynamic_erf", "dynamic_tanh"])
def test_newer_norms_obey_every_law_in_both_directions(norm: str) -> None:
    for causal in (True, False):
        choices = ("softmax_attention", "none", "rotary", norm, "pre", "gelu")
        check(Combination(choices, choices[0], causal, None, torch.float64, True))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", NEWER)
def test_newer_norms_train_in_every_family(kind: type[Norm], family: str) -> None:
    model = small_model(
        family, norm=kind, embedding_norm=True, mixer=partial(SoftmaxAttention, heads=AttentionHeads(qk_norm=True))
    )
    logits = model(**model.example_inputs(TEXT, 2, torch.device("cpu")))
    logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert ledger(model, TEXT).totals.parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("kind", NEWER)
def test_a_masked_head_gives_a_token_the_same_logits_whatever_is_scored_beside_it(kind: type[Norm]) -> None:
    model = exact_model("encoder_only", norm=kind, head="masked_language_model").eval()
    features = rows(2, 11, 16)
    whole = model.head(features)
    chosen = torch.tensor([3, 12, 20])
    torch.testing.assert_close(model.head(features.flatten(0, 1)[chosen]), whole.flatten(0, 1)[chosen])


@pytest.mark.parametrize("kind", NEWER)
def test_greedy_decoding_with_newer_norms_is_the_whole_forward_again_and_again(kind: type[Norm]) -> None:
    model = exact_model("decoder_only", norm=kind, embedding_norm=True).eval()
    prompt = torch.tensor([[3, 14, 15, 9]])
    row = prompt
    for _ in range(6):
        row = torch.cat([row, model(row)[:, -1:].argmax(-1)], 1)
    assert torch.equal(greedy(model, prompt, max_length=6), row[:, 4:])


@pytest.mark.parametrize("causal", [True, False])
def test_adaptive_norm_made_again_in_the_backward_pass_is_the_same(causal: bool) -> None:
    choices = ("softmax_attention", "none", "rotary", "adaptive", "sandwich", "gelu")
    stack = Combination(choices, choices[0], causal, None, torch.float64, embedding_norm=True).subject().build().train()
    gradients = []
    for kind in ("none", "full", "attention"):
        stack.checkpointing = Checkpointing(kind)
        x = rows(2, 9, 16).requires_grad_()
        gradients.append(torch.autograd.grad(stack(x, Context()).square().sum(), [x, *stack.parameters()]))
    for again in gradients[1:]:
        assert all(map(torch.equal, gradients[0], again))
