"""The number format of tensors that are made without one, which Lightning changes while it trains in 16 or 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

FORMATS = (torch.float32, torch.bfloat16, torch.float64)


@contextmanager
def usual_format(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def assert_plays_no_part(numbers: Callable[[], Mapping[str, Any]]) -> None:
    """Hold that the same numbers come out, to the last bit, under each usual format."""
    results = {}
    for dtype in FORMATS:
        with usual_format(dtype):
            results[dtype] = numbers()
    expected = results.pop(torch.float32)
    for dtype, other in results.items():
        pairs = ((path, *map(torch.as_tensor, (value, other[path]))) for path, value in expected.items())
        unlike = [path for path, one, two in pairs if not torch.equal(one, two)]
        assert unlike == [], f"under {dtype}"


def gradients(model: torch.nn.Module) -> dict[str, Any]:
    return {path: weight.grad.clone() for path, weight in model.named_parameters() if weight.grad is not None}
