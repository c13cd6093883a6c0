"""The transformations of logits before sampling agree with their definitions, token by token."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead.generation.decoding_loop import draw, top_k, top_p, with_repetition_penalty


def logits(rows: int = 6, size: int = 11, seed: int = 0) -> Tensor:
    return 3 * torch.randn(rows, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def saved(filtered: Tensor) -> list[set[int]]:
    return [set(row.isfinite().nonzero().flatten().tolist()) for row in filtered]


@pytest.mark.parametrize("k", [1, 3, 11, 50])
def test_top_k_keeps_the_k_likeliest_as_they_are(k: int) -> None:
    provided = logits()
    filtered = top_k(provided, k)
    for row, tokens in zip(provided.tolist(), saved(filtered), strict=True):
        assert tokens == set(sorted(range(len(row)), key=row.__getitem__)[-k:])
    assert torch.equal(filtered[filtered.isfinite()], provided[filtered.isfinite()])


@pytest.mark.parametrize("p", [0.01, 0.3, 0.7, 0.95, 1.0])
def test_top_p_keeps_the_smallest_set_of_likeliest_tokens_that_holds_the_share(p: float) -> None:
    provided = logits()
    for row, tokens in zip(provided.softmax(-1).tolist(), saved(top_p(provided, p)), strict=True):
        nucleus, mass = set(), 0.0
        for token in sorted(range(len(row)), key=row.__getitem__, reverse=True):
            if mass >= p:
                break
            nucleus.add(token)
            mass += row[token]
        assert tokens == nucleus


def test_top_p_always_keeps_one_token() -> None:
    assert saved(top_p(torch.tensor([[0.0, 40.0, 1.0]]), 1e-9)) == [{1}]


@pytest.mark.parametrize("penalty", [0.5, 1.3])
def test_repetition_penalty_moves_seen_tokens_alone_and_down_where_it_is_above_one(penalty: float) -> None:
    provided, seen = logits(), logits(seed=1) > 0
    moved = with_repetition_penalty(provided, seen, penalty)
    for row in range(len(provided)):
        for token in range(provided.shape[1]):
            old, new = float(provided[row, token]), float(moved[row, token])
            if not seen[row, token]:
                assert new == old
            else:
                assert math.isclose(new, old / penalty if old > 0 else old * penalty)
                assert (new < old) == (penalty > 1)


def test_draws_follow_the_probabilities() -> None:
    row = logits(1)[0]
    uniform = (torch.arange(20000, dtype=torch.float64) + 0.5) / 20000
    tokens = draw(row.expand(20000, -1), uniform)
    shares = torch.bincount(tokens, minlength=len(row)) / 20000
    torch.testing.assert_close(shares.double(), row.softmax(-1), atol=1e-4, rtol=0)


def test_a_token_that_cannot_be_is_never_drawn_whatever_the_luck() -> None:
    provided = torch.tensor([[-math.inf, 1.0, -math.inf, 0.5, -math.inf]]).expand(4, -1)
    uniform = torch.tensor([0.0, 0.3, 0.999999, 1 - 2**-53], dtype=torch.float64)
    assert set(draw(provided, uniform).tolist()) <= {1, 3}
