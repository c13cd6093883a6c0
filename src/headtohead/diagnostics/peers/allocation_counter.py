"""Count what a computation launches and allocates: figures that do not flake, unlike its time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class AllocationCounter(TorchDispatchMode):
    """It counts the kernels called inside it, the bytes of new memory that they return, and the most bytes held at
    once. Memory that a kernel takes and frees by itself is not seen."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels = self.allocated = self.held = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        before = {tensor.untyped_storage()._cdata for tensor in _tensors((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        made = [s for tensor in _tensors(result) if (s := tensor.untyped_storage())._cdata not in before]
        for storage in made:
            self._take(storage)
        self.kernels += bool(made) or func._schema.is_mutable  # type: ignore[attr-defined]
        return result

    def _take(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.allocated += size
        self.held += size
        self.peak = max(self.peak, self.held)
        weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.held -= size


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    yield from (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
