"""Logits of one written row are those of the plain product, whatever the vocabulary divides into."""

from __future__ import annotations

import pytest
import torch

from headtohead.components import linear_maps
from headtohead.components.linear_maps import logits_of


@pytest.mark.parametrize("size", [100, 4096, 5000])
@pytest.mark.parametrize("shape", [(1, 8), (2, 8), (1, 1, 8), (3, 8)])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("by_blocks", [True, False])
def test_logits_of_few_rows_are_those_of_the_product(
    size: int, shape: tuple[int, ...], has_bias: bool, by_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear_maps, "reads_one_row_slowly", lambda: by_blocks)
    generator = torch.Generator().manual_seed(0)
    features, weight, bias = (
        torch.randn(*one, generator=generator, dtype=torch.float64) for one in (shape, (size, 8), (size,))
    )
    expected = features @ weight.T + (bias if has_bias else 0)
    with torch.inference_mode():
        torch.testing.assert_close(logits_of(features, weight, bias if has_bias else None), expected)
