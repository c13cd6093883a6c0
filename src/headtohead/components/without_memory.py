"""Models are made without memory, on torch's meta device, where their shapes and their costs are all that is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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


def has_values(tensor: Tensor) -> bool:
    """Return whether a tensor holds numbers: those on the meta device and those of a replayed step are shapes alone."""
    fakes = sys.modules.get("torch._subclasses.fake_tensor")  # importing it takes a second
    return not tensor.is_meta and (fakes is None or not isinstance(tensor, fakes.FakeTensor))


class _DrawNothing(TorchFunctionMode):
    """Leaves out the drawing of numbers that nothing would hold, of which each costs a way through Python and the first
    the import of torch's compiler, a second."""

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
        return func(*args, **keywords)


@contextmanager
def without_memory() -> Iterator[None]:
    """Make within this block what has shapes and no numbers."""
    with torch.device("meta"), _DrawNothing():
        yield
