"""Measure the bytes of all tensors that live, operation by operation: what a training step really holds."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

ASKS_ONLY = frozenset({"device", "is_pinned"})
"""Operations that make no tensor, of which fake tensors call many."""


class TensorMeter(TorchDispatchMode):
    """Sees the storages that operations inside make; their bytes count as long as they live, each storage once."""

    def __init__(self, tensors: Iterable[Tensor] = (), *, ignored: Iterable[Tensor] = ()) -> None:
        """`tensors` are there already; those ignored count nothing."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._ignored = {_key(tensor) for tensor in ignored}
        self._storages: dict[int, StorageWeakRef] = {}
        self.add(tensors)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # the operations on their parts come here one by one
        made = self.called(func, args, kwargs or {})
        if func.overloadpacket.__name__ not in ASKS_ONLY:
            self.add(tensors_in(made))
            self.peak = max(self.peak, self.bytes())
        return made

    def called(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what the operation makes."""
        return func(*args, **kwargs)

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Count these tensors, too."""
        for tensor in tensors:
            if _has_storage(tensor) and (key := _key(tensor)) not in self._ignored:
                self._storages[key] = StorageWeakRef(tensor.untyped_storage())

    def bytes(self) -> int:
        """Return the bytes that live now; a storage may have been emptied and filled since it was made."""
        total = 0
        for key, reference in list(self._storages.items()):
            storage: torch.UntypedStorage | None = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
            if storage is None:
                del self._storages[key]
            else:
                total += storage.nbytes()
        return total


def living_tensors() -> list[Tensor]:
    """Return all tensors that Python knows now."""
    with torch.no_grad():
        return [held for held in gc.get_objects() if issubclass(type(held), Tensor) and _has_storage(held)]


def tensors_in(made: object) -> Iterator[Tensor]:
    """Yield the tensors among what an operation takes or makes."""
    if isinstance(made, Tensor):
        yield made
    elif isinstance(made, list | tuple):
        for part in made:
            yield from tensors_in(part)


def _has_storage(tensor: Tensor) -> bool:
    return type(tensor) is not DTensor and tensor.layout == torch.strided


def _key(tensor: Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key
