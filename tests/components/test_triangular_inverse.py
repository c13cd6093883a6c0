"""Inverses of triangular matrices by halves, against solving, where powers are large too."""

from __future__ import annotations

import pytest
import torch

from headtohead.components.sequence_ops.triangular_inverse import inverse_of_one_minus


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 64])
def test_it_is_the_inverse(size: int) -> None:
    strict = torch.randn(5, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(size)).tril(-1) / 4
    one = torch.eye(size, dtype=torch.float64)
    assert torch.allclose(inverse_of_one_minus(strict) @ (one - strict), one.expand(5, -1, -1), atol=1e-11)


@pytest.mark.parametrize("rate", [1.0, 2.0])
def test_equal_keys_at_the_highest_rate_keep_four_digits_in_float32(rate: float) -> None:
    """All entries are equal: the powers of this matrix grow into millions, its inverse does not."""
    strict = torch.full((1, 64, 64), -rate).tril(-1)
    expected = inverse_of_one_minus(strict.double())
    assert expected.abs().max() <= 2.0
    assert (inverse_of_one_minus(strict) - expected).abs().max() <= 1e-4
