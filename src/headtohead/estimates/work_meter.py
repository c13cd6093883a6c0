"""Count the operations of what runs inside, with the FLOPs that they compute and the bytes that they move."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headtohead.architectures.operation_counter import product_flops
from headtohead.estimates.step_figures import BYTES, COUNT, FLOPS, VIEWS, Key, OperationKind, Phase
from headtohead.training.tensor_meter import ASKS_ONLY, TensorMeter, tensors_in

_MAKE_ROOM = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})


class WorkMeter(TensorMeter):
    """Also counts operations, FLOPs and bytes moved; answers where a fake tensor has no value: yes, and one."""

    def __init__(self, scored_share: float, ignored: list[Tensor]) -> None:
        super().__init__(ignored=ignored)
        self.phase: Phase = "forward"
        self.work: dict[Key, float] = defaultdict(float)
        self._scored_share = scored_share

    def called(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        name = func.overloadpacket.__name__
        if name == "_local_scalar_dense":
            return args[0].dtype == torch.bool or 1
        if name == "nonzero":
            num_rows = round(self._scored_share * args[0].numel())
            return torch.empty(num_rows, args[0].ndim, dtype=torch.int64, device=args[0].device)
        made = func(*args, **kwargs)
        if name in ASKS_ONLY:
            return made
        self._count(func, name, args, kwargs, made)
        return made

    def _count(self, func: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], made: Any) -> None:
        read = list(tensors_in([*args, *kwargs.values()]))
        first = next(iter(read), None) if read else next(tensors_in(made), None)
        if first is None or name in _MAKE_ROOM:
            return
        flops = product_flops(func, args, kwargs, made)
        kind = OperationKind(self.phase, name, first.dtype, flops > 0)
        if func.is_view or name == "_unsafe_view":
            self.work[VIEWS, kind] += 1
            return
        self.work[COUNT, kind] += 1
        self.work[FLOPS, kind] += flops
        self.work[BYTES, kind] += sum(_moved(tensor) for tensor in (*read, *tensors_in(made)))


def _moved(tensor: Tensor) -> int:
    """Return the bytes of a tensor's numbers; one that is expanded is read from fewer."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
