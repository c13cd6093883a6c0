"""These tests cover what the laws do not say of linear mixers: what they estimate, how long they remember, what they
refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from contracts.choices import factory
from headtohead.components.component import Context, Mixer
from headtohead.components.fast_kernels import FastKernel
from headtohead.components.mixers.linear.linear_attention import Based, Performer
from headtohead.components.mixers.linear.mlstm import Mlstm
from headtohead.components.mixers.linear.retention import Retention
from headtohead.components.mixers.reference.linear import ReferenceDecayedSums

NAMES = ("linear_attention", "performer", "based", "retention", "lightning_attention", "mamba2", "mlstm")


def made(name: str, **options: Any) -> Mixer:
    torch.manual_seed(0)
    mixer: Mixer = factory("mixer", name, **options)(32, num_heads=4, causal=True)
    return mixer


def test_more_features_bring_performer_nearer_to_softmax() -> None:
    """Performer's weights are those of softmax on average: the error falls as the number of features grows."""
    q, k = (0.7 * torch.randn(1, 1, 40, 8, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    softmax = (q @ k.mT * 8**-0.5).softmax(-1)
    errors = []
    for num_features in (16, 4096):
        torch.manual_seed(0)
        mixer = Performer(8, num_heads=1, causal=False, num_features=num_features)
        weights = mixer.query_features(q) @ mixer.key_features(k).mT
        errors.append(float((weights / weights.sum(-1, keepdim=True) - softmax).square().mean().sqrt()))
    assert errors[1] < 0.3 * errors[0]
    assert errors[1] < 0.01


def test_performer_uses_orthogonal_directions() -> None:
    directions = Performer(32, num_heads=4, causal=True, num_features=8).directions
    products = directions @ directions.T
    assert torch.allclose(products, products.diagonal().diag(), atol=1e-4)


def test_performer_draws_anew_after_as_many_steps_as_requested_whatever_is_read_meanwhile() -> None:
    mixer = Performer(32, num_heads=4, causal=True, redraw_every=2)
    x, seen = torch.randn(1, 5, 32), [mixer.directions]
    for step in range(4):
        mixer.begin_step(step, torch.Generator().manual_seed(step))
        for _ in range(1 + step):
            mixer(x, Context())
        seen.append(mixer.directions)
    assert all(torch.equal(one, seen[0]) for one in seen[:3]) and torch.equal(seen[3], seen[4])
    assert not torch.equal(seen[3], seen[0])


def test_keys_of_wide_heads_stay_within_float32() -> None:
    mixer = Performer(512, num_heads=1, causal=True, num_features=64)
    along = mixer.directions[0] * 512**0.25
    features = mixer.key_features(torch.stack((torch.randn(512), along))[None, None])
    assert features.isfinite().all()
    assert (features[0, 0, 0] > 0).all()


@pytest.mark.parametrize("causal", [True, False])
def test_based_weighs_values_by_the_second_order_series_of_the_exponential(causal: bool) -> None:
    """All pairs of tokens by the paper's formula, in 64 bits: outputs, and gradients of the input and all weights."""
    torch.manual_seed(0)
    mixer = Based(24, num_heads=2, causal=causal, key_width=5, bias=True, chunk_size=4).double()
    x = torch.randn(2, 11, 24, dtype=torch.float64, requires_grad=True)
    q, k, v = (part(x).unflatten(-1, (2, -1)).transpose(1, 2) for part in (mixer.query, mixer.key, mixer.value))
    s = q @ k.mT / 5**0.5
    weights = 1 + s + s.square() / 2
    weights = weights.tril() if causal else weights
    expected = mixer.output((weights / weights.sum(-1, keepdim=True) @ v).transpose(1, 2).flatten(2))
    y, read = mixer(x, Context()), [x, *mixer.parameters()]
    assert torch.allclose(y, expected, rtol=0, atol=1e-12)
    own, exact = (torch.autograd.grad(output.square().sum(), read) for output in (y, expected))
    assert all(torch.allclose(one, other, rtol=0, atol=1e-10) for one, other in zip(own, exact, strict=True))


def test_based_has_the_products_of_the_papers_features_with_fewer_of_them() -> None:
    mixer, (q, k) = made("based"), torch.randn(2, 1, 2, 7, 16, dtype=torch.float64).unbind()
    assert isinstance(mixer, Based) and mixer.num_features == 153
    whole = [
        torch.cat((x[..., :1] ** 0, x / 2, (x[..., None] * x[..., None, :]).flatten(-2) / 32**0.5), -1) for x in (q, k)
    ]
    assert whole[0].shape[-1] == 273
    products = mixer.query_features(q) @ mixer.key_features(k).mT
    assert torch.allclose(products, whole[0] @ whole[1].mT, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_carried_does_not_grow(name: str) -> None:
    mixer = made(name)
    x = torch.randn(2, 90, 32)
    sizes = []
    with torch.no_grad():
        state = mixer.initial_state(2, 90, device=x.device, dtype=x.dtype)
        for start, end in ((0, 70), (70, 71), (71, 90)):
            _, state = mixer.step(x[:, start:end], state, Context(positions=torch.arange(start, end)[None]))
            sizes.append(sum(tensor.numel() for tensor in state.tensors()))
    assert len(set(sizes)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_of_several_chunks_is_continued_token_by_token(name: str) -> None:
    mixer = made(name).double()
    x = torch.randn(2, 140, 32, dtype=torch.float64)
    with torch.no_grad():
        state, parts = mixer.initial_state(2, 140, device=x.device, dtype=x.dtype), []
        for start, end in ((0, 130), *((t, t + 1) for t in range(130, 140))):
            y, state = mixer.step(x[:, start:end], state, Context(positions=torch.arange(start, end)[None]))
            parts.append(y)
        assert torch.allclose(torch.cat(parts, dim=1), mixer(x, Context()), rtol=0, atol=1e-10)


@pytest.mark.parametrize("shift", [-60.0, 0.0, 60.0])
def test_exponential_gates_neither_overflow_nor_vanish(shift: float) -> None:
    mixer = Mlstm(32, num_heads=4, causal=True)
    with torch.no_grad():
        mixer.input_bias.add_(shift)
        mixer.forget_bias.sub_(5.0)
    x = (3.0 * torch.randn(2, 300, 32)).requires_grad_()
    y: Tensor = mixer(x, Context())
    y.square().sum().backward()
    assert y.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in mixer.parameters())


def test_heads_of_retention_remember_ever_longer() -> None:
    decays = Retention(32, num_heads=4, causal=True).log_decay(torch.zeros((), dtype=torch.float64)).exp().flatten()
    assert decays.tolist() == pytest.approx([1 - 1 / 32, 1 - 1 / 64, 1 - 1 / 128, 1 - 1 / 256])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mamba2", {"head_width": 5}, "head_width=5 does not divide mamba2's 64 inner channels"),
        ("mamba2", {"num_groups": 3}, "num_groups=3 does not divide mamba2's 4 heads"),
        ("performer", {"num_features": 0}, "num_features=0 is not a number of features"),
        ("performer", {"redraw_every": 0}, "redraw_every=0 is not a number of steps"),
        ("based", {"key_width": 0}, "key_width=0 leaves nothing of queries and keys: use 16"),
        ("linear_attention", {"chunk_size": 0}, "chunk_size=0 is not a number of tokens"),
        ("retention", {"chunk_size": 0}, "chunk_size=0 is not a number of tokens"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(name, **options)


def simple_gla(q: Tensor, k: Tensor, v: Tensor, g: Tensor, scale: float, cu_seqlens: Tensor | None = None) -> tuple:
    """Stand in for flash-linear-attention's kernel, token by token: all [B, L, H, K], g [B, L, H]."""
    document_starts = torch.zeros(q.shape[:2], dtype=torch.bool)
    if cu_seqlens is not None:
        document_starts[:, cu_seqlens[:-1]] = True
    y, last = ReferenceDecayedSums().sums(
        *(t.transpose(1, 2) for t in (scale * q, k, v, g)), document_starts=document_starts
    )
    return y.transpose(1, 2), last


def chunk_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, chunk_size: int, seq_idx: Tensor | None = None
) -> Tensor:
    """Stand in for mamba-ssm's kernel, token by token: x [B, L, H, P], dt [B, L, H], B and C [B, L, G, N]."""
    assert chunk_size == 64
    document_starts = None if seq_idx is None else torch.nn.functional.pad(seq_idx.diff(dim=1) != 0, (1, 0))
    q, k, v = C, B, dt[..., None] * x
    y, _ = ReferenceDecayedSums().sums(*(t.transpose(1, 2) for t in (q, k, v, dt * A)), document_starts=document_starts)
    return y.transpose(1, 2)


@pytest.mark.parametrize("packed", [False, True], ids=["one document", "documents"])
@pytest.mark.parametrize(
    ("name", "kernel"), [("retention", simple_gla), ("lightning_attention", simple_gla), ("mamba2", chunk_scan)]
)
def test_through_a_kernel_a_mixer_gives_what_it_gives_without(
    name: str, kernel: Callable[..., Any], packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixer = made(name).double()
    x, segments = torch.randn(2, 9, 32, dtype=torch.float64), (torch.arange(9) >= torch.tensor([[4], [7]])).long()
    context = Context(segments=segments if packed else None)
    with torch.no_grad():
        without = mixer(x, context)
        monkeypatch.setattr(FastKernel, "function", lambda *_: kernel)
        assert torch.allclose(mixer(x, context), without, rtol=0, atol=1e-12)
