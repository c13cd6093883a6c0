"""The work of a training step: the bytes of all tensors that live, operation by operation, and the FLOPs and bytes
moved of each part."""

from __future__ import annotations

import gc
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from headtohead.architectures.operation_counter import product_flops
from headtohead.components.mixers.recurrent.torch_recurrence import workspace_bytes
from headtohead.components.without_memory import has_values
from headtohead.training.parallel.sharding import is_part, is_part_type

Phase = Literal["forward", "backward"]
Saving = Literal["all", "recompute_mixers", "offload"]
"""The way of a block with its activations: it saves all, all but those of mixers, or moves them to the processor."""


@dataclass(frozen=True)
class OperationKind:
    """Operations of one name in one number format, in one pass."""

    phase: Phase
    name: str
    dtype: torch.dtype
    is_product: bool


Key = tuple[str, OperationKind | None]
"""A figure of a part, and of which operations it is."""
CAUSAL = " causal"
"""The end of an attention kernel's name where it reads the past alone, of which kernels skip more or less."""
SAVED, OUTPUT, FORWARD, PEAK, ADDING, LEFT, GRADIENTS, MOVED = (
    "saved", "output", "forward", "peak", "adding", "left", "gradients", "moved",
)  # fmt: skip
COUNT, FLOPS, BYTES, VIEWS = "count", "flops", "bytes", "views"


class Figures(dict[Key, float]):
    """Figures of one part for some number of rows; they add up and grow in lines."""

    def of(self, name: str) -> float:
        """Return a figure that is of no operation: the bytes that the forward pass saves, its output among them; of
        the output; the most that live at a time in the forward pass, in the backward pass, and in one that adds its
        gradients to those of another; those that outlive the pass besides gradients; of gradients; those moved to the
        processor's memory."""
        return self.get((name, None), 0.0)

    def operations(self) -> dict[OperationKind, tuple[float, float, float]]:
        """Return number, FLOPs and bytes moved by kind of operation."""
        kinds = {kind for _, kind in self if kind is not None}
        return {
            kind: (self.get((COUNT, kind), 0.0), self.get((FLOPS, kind), 0.0), self.get((BYTES, kind), 0.0))
            for kind in kinds
        }


def held_at(path: str) -> str:
    """Return the name of a model's figure: the bytes that live when it comes to a block, what this reads among them."""
    return f"held at {path}"


def above_blocks(peak: str) -> str:
    """Return the name of a model's figure: its peak until the backward pass comes to the last block."""
    return f"{peak} above the blocks"


def combined(terms: list[tuple[float, Figures]]) -> Figures:
    """Return the weighted sum."""
    total: dict[Key, float] = defaultdict(float)
    for weight, figures in terms:
        for key, value in figures.items():
            total[key] += weight * value
    return Figures(total)


@dataclass(frozen=True, eq=False)
class StepPart:
    """One part of a step, or several alike: embedding and final norm, a block, the head with its loss."""

    module: nn.Module
    paths: tuple[str, ...]
    """The paths of these blocks in the model."""
    rows: tuple[int, int]
    """Two numbers of rows."""
    fewer: Figures
    more: Figures
    """The figures for so many rows."""
    others: Mapping[Saving, tuple[Figures, Figures]] = field(default_factory=dict)
    """The same where a block saves otherwise; of blocks alone."""
    is_trained: bool = True
    """Whether a backward pass comes here: it does not below the first weights that are trained."""
    _known: dict[tuple[float, Saving], Figures] = field(default_factory=dict, repr=False)

    def at(self, rows: float, saving: Saving = "all") -> Figures:
        """Return the figures of one of them for so many rows."""
        key = (rows, saving)
        if key not in self._known:
            fewer, more = self.others.get(saving, (self.fewer, self.more))
            share = (rows - self.rows[0]) / (self.rows[1] - self.rows[0])
            self._known[key] = combined([(1 - share, fewer), (share, more)])
        return self._known[key]


ASKS_ONLY = frozenset({"device", "is_pinned"})
"""Operations that make no tensor, of which fake tensors call many."""


class TensorMeter(TorchDispatchMode):
    """Sees the storages that operations inside make; their bytes count as long as they live, each storage once.

    An operation costs the same however many live: a storage is added when it is made, and taken off when it dies."""

    def __init__(self, tensors: Iterable[Tensor] = (), *, ignored: Iterable[Tensor] = ()) -> None:
        """`tensors` are there already; those ignored count nothing."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._bytes = 0
        self._sizes: dict[int, int] = {}
        self._living: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        for tensor in ignored:
            self._watch(_key(tensor), tensor.untyped_storage())
        self.add(tensors)

    def __enter__(self) -> Self:
        self._resize = torch.UntypedStorage.resize_
        torch.UntypedStorage.resize_ = self._resized()  # type: ignore[assignment, method-assign]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, object] | None = None
    ) -> Any:
        if any(is_part_type(kind) for kind in types):
            return NotImplemented  # the operations on their parts come here one by one
        made = self.called(func, args, kwargs or {})
        if func.overloadpacket.__name__ not in ASKS_ONLY:
            self.add(tensors_in(made))
            self.peak = max(self.peak, self._bytes)
        return made

    def called(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, object]) -> Any:
        """Return what the operation makes."""
        return func(*args, **kwargs)

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Count these tensors, too."""
        for tensor in tensors:
            if _has_storage(tensor):
                storage, key = tensor.untyped_storage(), _key(tensor)
                if key not in self._living:
                    self._watch(key, storage)
                    self._sizes[key] = 0
                self._measure(key, storage)

    def bytes(self) -> int:
        """Return the bytes that live now."""
        return self._bytes

    def _watch(self, key: int, storage: torch.UntypedStorage) -> None:
        """Python's object of a storage lives as long as the storage itself, whoever else holds it."""
        self._living[key] = weakref.ref(storage, lambda _: self._died(key))

    def _measure(self, key: int, storage: torch.UntypedStorage) -> None:
        """Count a storage as large as it is now, unless it is one that is ignored."""
        if key in self._sizes:
            self._bytes += storage.nbytes() - self._sizes[key]
            self._sizes[key] = storage.nbytes()

    def _died(self, key: int) -> None:
        """Another storage may get its number."""
        del self._living[key]
        self._bytes -= self._sizes.pop(key, 0)

    def _resized(self) -> Callable[[torch.UntypedStorage, int], torch.UntypedStorage]:
        """Return the resizing of storages, by which FSDP empties and fills weights outside of operations."""

        def resize(storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
            self._resize(storage, size)
            self._measure(storage._cdata, storage)
            return storage

        return resize


def living_tensors() -> list[Tensor]:
    """Return all tensors that Python knows now and that hold memory; the compiler leaves others, whose sizes may be
    symbols."""
    with torch.no_grad():
        tensors = [held for held in gc.get_objects() if issubclass(type(held), Tensor)]
        return [tensor for tensor in tensors if has_values(tensor) and _has_storage(tensor)]


def tensors_in(made: object) -> Iterator[Tensor]:
    """Yield the tensors among what an operation takes or makes."""
    if isinstance(made, Tensor):
        yield made
    elif isinstance(made, list | tuple):
        for part in made:
            yield from tensors_in(part)


def _has_storage(tensor: Tensor) -> bool:
    return not is_part(tensor) and tensor.layout == torch.strided


def _key(tensor: Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key


_MAKE_ROOM = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})


class WorkMeter(TensorMeter):
    """Also counts operations, FLOPs and bytes moved; answers where a fake tensor has no value: yes, and one."""

    def __init__(self, scored_share: float, ignored: list[Tensor], *, device: str = "cpu") -> None:
        """`device` is the type of the one whose kernels are counted."""
        self.peak_adding = self._gradients = 0
        """The most bytes besides gradients that have been made whole: those of the parts of a batch before have room
        for them; and the bytes of these gradients."""
        self._with_gradient: set[int] = set()
        super().__init__(ignored=ignored)
        self._device = device
        self.phase: Phase = "forward"
        self.work: dict[Key, float] = defaultdict(float)
        self._scored_share = scored_share
        self._times = 1

    def add(self, tensors: Iterable[Tensor]) -> None:
        super().add(tensors)
        self.peak_adding = max(self.peak_adding, self._bytes - self._gradients)

    def added(self, weight: Tensor) -> None:
        """Note that the gradient of a weight is whole, as a hook of the weight."""
        assert weight.grad is not None
        if id(weight) not in self._with_gradient:
            self._with_gradient.add(id(weight))
            self._gradients += weight.grad.untyped_storage().nbytes()

    def unseen_like(self, tensor: Tensor) -> Tensor:
        """Return a tensor of the same shape that counts nothing."""
        peak = self.peak
        like = torch.empty_like(tensor, requires_grad=tensor.requires_grad)
        self._bytes -= self._sizes.pop(_key(like), 0)
        self.peak = peak
        return like

    def turns(self, bounds: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the first turn of a loop, the second for all that are like it, and the last."""
        alike = len(bounds) - 2
        yield from bounds[:1]
        if alike > 0:
            self._times *= alike
            yield bounds[1]
            self._times //= alike
        yield from bounds[1:][-1:]

    def called(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, object]) -> Any:
        name = func.overloadpacket.__name__
        if name == "_local_scalar_dense":
            return args[0].dtype == torch.bool or 1
        if name == "nonzero":
            num_rows = round(self._scored_share * args[0].numel())
            return torch.empty(num_rows, args[0].ndim, dtype=torch.int64, device=args[0].device)
        made = func(*args, **kwargs)
        if name in ASKS_ONLY:
            return made
        if name == "mkldnn_rnn_layer" and self._device == "cpu":  # whose workspace is empty where tensors are fake
            tokens, width = args[0], args[10]
            size = workspace_bytes(tokens.shape[0], width, tokens.shape[1])
            made = (*made[:-1], torch.empty(size, dtype=torch.uint8, device=tokens.device))
        self._count(func, name, args, kwargs, made)
        return made

    def _count(self, func: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, object], made: Any) -> None:
        read = list(tensors_in([*args, *kwargs.values()]))
        first = next(iter(read), None) if read else next(tensors_in(made), None)
        if first is None or name in _MAKE_ROOM:
            return
        flops = product_flops(func, args, kwargs, made)
        if "attention" in name and any(argument is True for argument in (*args, *kwargs.values())):
            name += CAUSAL
        kind = OperationKind(self.phase, name, first.dtype, flops > 0)
        if func.is_view or name == "_unsafe_view":
            self.work[VIEWS, kind] += self._times
            return
        self.work[COUNT, kind] += self._times
        self.work[FLOPS, kind] += self._times * flops
        self.work[BYTES, kind] += self._times * sum(_moved(tensor) for tensor in (*read, *tensors_in(made)))


def _moved(tensor: Tensor) -> int:
    """Return the bytes of a tensor's numbers; one that is expanded is read from fewer."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
