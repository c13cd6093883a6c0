"""Models are made without memory, on torch's meta device, where their shapes and their costs are all that is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import init
from torch.overrides import TorchFunctionMode

_DRAWS: frozenset[object] = frozenset(
    {
        *(Tensor.normal_, Tensor.uniform_, Tensor.bernoulli_, Tensor.exponential_, Tensor.random_),
        *(init.normal_, init.uniform_, init.trunc_normal_, init.kaiming_normal_, init.kaiming_uniform_),
        *(init.xavier_normal_, init.xavier_uniform_),
    }
)
_SCALINGS: frozenset[object] = frozenset({Tensor.mul_, Tensor.div_})
"""Products with a number, which leave a tensor's shape and format as they are."""


def has_values(tensor: Tensor) -> bool:
    """Return whether a tensor holds numbers: those on the meta device and those of a replayed step are shapes alone."""
    fakes = sys.modules.get("torch._subclasses.fake_tensor")  # importing it takes a second
    return not tensor.is_meta and (fakes is None or not isinstance(tensor, fakes.FakeTensor))


@dataclass(frozen=True)
class Packing:
    """The documents in rows of tokens that are known by their shapes alone."""

    per_row: float = 1.0
    longest: float = 1.0
    """The share of a row that the longest document takes."""

    def sizes(self, rows: int, length: int) -> tuple[int, int]:
        """Return how many documents so many rows hold, and the tokens of the longest."""
        return max(1, round(self.per_row * rows)), max(1, round(self.longest * length))


_UNPACKED = Packing()
_packing: ContextVar[Packing] = ContextVar("packing", default=_UNPACKED)


def packing() -> Packing:
    """Return how rows without numbers are packed."""
    return _packing.get()


@contextmanager
def with_packing(packed: Packing) -> Iterator[None]:
    """Let rows without numbers be packed so within this block."""
    token = _packing.set(packed)
    try:
        yield
    finally:
        _packing.reset(token)


class _ComputeNothing(TorchFunctionMode):
    """Leaves out the drawing and scaling of numbers that nothing would hold, of which each costs a way through Python
    and the first the import of torch's compiler or of sympy, up to a second."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        keywords = kwargs or {}
        if func in _DRAWS and (tensor := args[0] if args else keywords["tensor"]).is_meta:
            return tensor
        if func in _SCALINGS and _is_meta_times_number(*args, **keywords):
            return args[0]
        return func(*args, **keywords)


def _is_meta_times_number(tensor: Tensor, other: object = None, **further: object) -> bool:
    return tensor.is_meta and tensor.is_floating_point() and type(other) in (int, float) and not further


@contextmanager
def without_memory() -> Iterator[None]:
    """Make within this block what has shapes and no numbers."""
    with torch.device("meta"), _ComputeNothing():
        yield
