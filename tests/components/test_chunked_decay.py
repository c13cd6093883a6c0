"""Chunks give what the recurrence gives, whatever their size, the state before them and the documents in them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headtohead.components.mixers.reference.linear import ReferenceDecayedSums
from headtohead.components.sequence_ops.chunked_decay import decay_matrix, decayed_sums, padded_length

B, H, L, K, P = 2, 3, 37, 4, 6


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def decay(kind: str) -> Tensor | None:
    """Return no decay, one decay for all tokens, or the tokens' own."""
    if kind == "none":
        return None
    if kind == "fixed":
        return -torch.rand(1, H, 1, dtype=torch.float64)
    return (-torch.rand(B, H, L, dtype=torch.float64)).requires_grad_()


@pytest.mark.parametrize("chunk_size", [1, 8, 37, 64])
@pytest.mark.parametrize("packed", [False, True], ids=["one document", "documents"])
@pytest.mark.parametrize("goes_on", [False, True], ids=["from nothing", "from a state"])
@pytest.mark.parametrize("kind", ["none", "fixed", "of the data"])
def test_chunks_are_the_recurrence(kind: str, goes_on: bool, packed: bool, chunk_size: int) -> None:
    torch.manual_seed(0)
    q, k, v = numbers(B, H, L, K), numbers(B, H, L, K), numbers(B, H, L, P)
    log_decay, state = decay(kind), numbers(B, H, K, P) if goes_on else None
    starts = torch.rand(B, L) < 0.15 if packed else None
    inputs = [t for t in (q, k, v, log_decay, state) if t is not None and t.requires_grad]
    weights = torch.randn(B, H, L, P, dtype=torch.float64), torch.randn(B, H, K, P, dtype=torch.float64)
    each = torch.zeros(1, 1, 1, dtype=torch.float64) if log_decay is None else log_decay
    results = []
    for y, last in (
        decayed_sums(q, k, v, log_decay, state=state, starts=starts, chunk_size=chunk_size),
        ReferenceDecayedSums().sums(q, k, v, each, document_starts=starts, state=state),
    ):
        loss = (y * weights[0]).sum() + (last * weights[1]).sum()
        results.append([y, last, *torch.autograd.grad(loss, inputs)])
    for chunked, plain in zip(*results, strict=True):
        assert torch.allclose(chunked, plain, rtol=0, atol=1e-11)


def test_the_decay_matrix_is_what_the_sums_use() -> None:
    torch.manual_seed(0)
    q, k, v, log_decay = numbers(B, H, L, K), numbers(B, H, L, K), numbers(B, H, L, P), decay("of the data")
    starts = torch.rand(B, L) < 0.15
    weights = q @ k.mT * decay_matrix(log_decay, starts, L, q)
    y, _ = decayed_sums(q, k, v, log_decay, starts=starts, chunk_size=8)
    assert torch.allclose(weights @ v, y, rtol=0, atol=1e-11)


def test_decay_so_strong_that_nothing_is_left_gives_numbers() -> None:
    q, k, v = (torch.randn(1, 1, 200, 4, requires_grad=True) for _ in range(3))
    log_decay = torch.full((1, 1, 200), -300.0, requires_grad=True)
    y, _ = decayed_sums(q, k, v, log_decay)
    y.square().sum().backward()
    assert torch.allclose(y, (q * k).sum(-1, keepdim=True) * v, atol=1e-5)
    assert all(t.grad is not None and t.grad.isfinite().all() for t in (q, k, v, log_decay))


def test_thousands_of_tokens_stay_near_in_single_precision() -> None:
    torch.manual_seed(0)
    exact = [numbers(1, 2, 4100, 8) for _ in range(3)] + [(-0.01 * torch.rand(1, 2, 4100).double()).requires_grad_()]
    single = [t.detach().float().requires_grad_() for t in exact]
    for inputs in (exact, single):
        decayed_sums(*inputs)[0].square().mean().backward()
    for near, far in zip(single, exact, strict=True):
        assert near.grad is not None and far.grad is not None
        assert float((near.grad - far.grad).abs().max() / far.grad.abs().max()) < 1e-4


@pytest.mark.parametrize(("length", "expected"), [(1, (1, 1)), (64, (64, 1)), (65, (66, 2)), (8192, (8192, 128))])
def test_as_few_tokens_as_can_be_are_added(length: int, expected: tuple[int, int]) -> None:
    assert padded_length(length, 64) == expected
