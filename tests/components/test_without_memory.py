"""Models made without memory leave out numbers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headtohead.components.without_memory import without_memory

CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "drawn": lambda tensor: tensor.normal_(),
    "times an integer": lambda tensor: tensor.mul_(3),
    "over a number": lambda tensor: tensor.div_(2**0.5),
    "over a tensor": lambda tensor: tensor.div_(torch.ones(3)),
    "rounded": lambda tensor: tensor.div_(2.0, rounding_mode="floor"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_in_place_returns_the_tensor_as_it_would_with_memory(change: str) -> None:
    with without_memory():
        tensor = torch.empty(2, 3, dtype=torch.bfloat16)
        assert CHANGES[change](tensor) is tensor
    assert tensor.is_meta and tensor.dtype is torch.bfloat16 and tensor.shape == (2, 3)


def test_what_has_memory_is_scaled_within_the_block() -> None:
    weight = torch.full((2,), 8.0)
    with without_memory():
        weight.div_(2).mul_(3)
    assert weight.tolist() == [12.0, 12.0]


def test_a_product_of_other_shapes_is_refused_without_memory_too() -> None:
    with without_memory(), pytest.raises(RuntimeError):
        torch.empty(2).mul_(torch.empty(3))
