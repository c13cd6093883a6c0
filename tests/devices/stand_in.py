"""A device beside the CPU, on any machine: it refuses what CUDA refuses, casts what CUDA casts, computes on the CPU.

Its tensors hold a tensor of the CPU each, so that numbers can be read, followed and compared. A tensor that was left on
the CPU is refused as CUDA refuses it. Autocast casts the operations that it casts on CUDA, which are read from torch's
own header. Once made, the device stays in the process: run programs with it, no tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as trees
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

NAME = "stand_in"
"""torch gives every module and tensor a method of this name; ours have no attribute so called."""
_AUTOCAST = torch._C.DispatchKey.AutocastPrivateUse1  # type: ignore[attr-defined]
_HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
_aten = torch.ops.aten
_MOVES = {_aten._to_copy.default, _aten.copy_.default}
_INDEXES = {
    *(_aten.index.Tensor, _aten._unsafe_index.Tensor),
    *(_aten.index_put.default, _aten.index_put_.default, _aten._index_put_impl_.default),
    _aten._pack_padded_sequence.default,
}
"""The operations that take indices, or the lengths of rows, from the CPU too."""
torch.inference_mode = torch.no_grad  # type: ignore[misc]
# Under inference mode torch asks a device in Python for whole compositions such as einsum, which autocast then misses.
_libraries: list[torch.library.Library] = []


class _Module:
    """Answers torch's questions about the device, as torch.cuda answers those about CUDA."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def manual_seed_all(self, seed: int) -> None:
        del seed

    def get_rng_state(self, device: object = None) -> Tensor:
        del device
        return torch.zeros(16, dtype=torch.uint8)

    def set_rng_state(self, state: Tensor, device: object = None) -> None:
        del state, device

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def get_device_properties(self, device: object = None) -> SimpleNamespace:
        del device
        return SimpleNamespace(name=NAME)


class OnDevice(Tensor):
    """A tensor of the device; `value` has its numbers."""

    value: Tensor

    @staticmethod
    def __new__(cls, value: Tensor) -> OnDevice:
        made = Tensor._make_wrapper_subclass(
            cls,
            value.size(),
            strides=value.stride(),
            storage_offset=value.storage_offset(),
            dtype=value.dtype,
            device=f"{NAME}:0",
        )
        made.value = value
        return made

    def __init__(self, value: Tensor) -> None:
        del value

    def __repr__(self) -> str:  # type: ignore[override]
        return f"OnDevice({self.value})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        return _run(func, args, kwargs or {})


class _Factories(TorchDispatchMode):
    """Makes tensors on the device where one is requested."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        options = device is not None and torch.device(device).type == NAME
        return _run(func, args, kwargs) if options or OnDevice in types else func(*args, **kwargs)


class _Literals(TorchFunctionMode):
    """Makes a tensor of Python's numbers on the CPU and moves it, since torch writes the numbers by itself."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if func in (torch.tensor, torch.as_tensor) and device is not None and torch.device(device).type == NAME:
            return func(*args, **{**kwargs, "device": "cpu"}).to(device)
        if func is Tensor.new_tensor and args[0].device.type == NAME:
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype, **kwargs}).to(args[0].device)
        return func(*args, **kwargs)


@contextmanager
def stand_in() -> Iterator[None]:
    """Make the device known within; its kernels stay known to the process."""
    if not _libraries:
        _make_device()
        torch.__future__.set_swap_module_params_on_conversion(True)  # as on CUDA, tied weights stay one when moved
    with _Factories(), _Literals():
        yield


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in trees.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    _refuse_mixed(func, tensors)
    device = kwargs.get("device")
    stays = torch.device(device).type == NAME if device is not None else func is not _aten.copy_.default
    on_cpu = {**kwargs, "device": "cpu"} if device is not None else kwargs
    unwrapped = trees.tree_map(lambda leaf: leaf.value if isinstance(leaf, OnDevice) else leaf, (args, on_cpu))
    result = func(*unwrapped[0], **unwrapped[1])
    if func is _aten.copy_.default:
        return args[0]
    if not stays:
        return result
    if func is _aten._pack_padded_sequence.default:
        return OnDevice(result[0]), result[1]  # torch keeps the numbers of rows on the CPU

    wrapped = trees.tree_map(lambda leaf: OnDevice(leaf) if isinstance(leaf, Tensor) else leaf, result)
    return return_and_correct_aliasing(func, args, kwargs, wrapped)


def _refuse_mixed(func: Any, tensors: list[Tensor]) -> None:
    """CUDA takes numbers without a dimension from the CPU, and indices; what is written to must be its own."""
    here = [isinstance(tensor, OnDevice) for tensor in tensors]
    if not any(here) or func in _MOVES:
        return
    elsewhere = [tensor for tensor, is_here in zip(tensors, here, strict=True) if not is_here and tensor.dim() > 0]
    writes_elsewhere = func._schema.is_mutable and not here[0]
    if writes_elsewhere or (elsewhere and (func not in _INDEXES or not here[0])):
        raise RuntimeError(f"{func}: expected all tensors on one device, found {NAME} and cpu")


def _make_device() -> None:
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    others = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
    others.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    casts = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")
    for section, cast in (("LOWER_PRECISION_FP", _lower), ("FP32", _single), ("PROMOTE", _widest)):
        for name in cuda_list(section):
            casts.impl(name, _casting(name, cast))
    for name in cuda_list("FP32_SET_OPT_DTYPE"):
        casts.impl(name, _summing(name))
    cells = torch.library.Library("aten", "IMPL", "AutogradPrivateUse1")
    cells.impl("_thnn_fused_gru_cell", _gru_cell)
    cells.impl("_thnn_fused_lstm_cell", _lstm_cell)
    _libraries.extend([others, casts, cells])


def _gru_cell(inputs: Tensor, hidden: Tensor, state: Tensor, b_in: Any = None, b_hid: Any = None) -> tuple[Any, ...]:
    """Compute what CUDA has one kernel for."""
    inputs, hidden = (inputs, hidden) if b_in is None else (inputs + b_in, hidden + b_hid)
    (r_in, z_in, n_in), (r_hid, z_hid, n_hid) = inputs.chunk(3, 1), hidden.chunk(3, 1)
    reset, update = torch.sigmoid(r_in + r_hid), torch.sigmoid(z_in + z_hid)
    new = torch.tanh(n_in + reset * n_hid)
    return new + update * (state - new), torch.empty_like(inputs)


def _lstm_cell(inputs: Tensor, hidden: Tensor, cell: Tensor, b_in: Any = None, b_hid: Any = None) -> tuple[Any, ...]:
    gates = inputs + hidden if b_in is None else inputs + hidden + b_in + b_hid
    into, forget, new, out = gates.chunk(4, 1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(into) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell, torch.empty_like(gates)


def cuda_list(section: str) -> list[str]:
    """Return the operations of one of CUDA's lists, as `name` or `name.overload`."""
    result = re.search(rf"#define AT_FORALL_{section}\(_\)(.*?)\n\n", _HEADER.read_text(), re.DOTALL)
    assert result is not None
    named = re.findall(r"_\((\w+)(?:, (\w+))?\)", result[1].replace("\\\n", ""))
    return [name for name in (f"{name}.{overload}".rstrip(".") for name, overload in named) if _operation(name)]


def _operation(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(_aten, packet, None), overload or "default", None)


def _casting(name: str, cast_of: Callable[[list[Tensor]], torch.dtype]) -> Callable[..., Any]:
    operation = _operation(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_AUTOCAST)):
            floating = [leaf for leaf in trees.tree_leaves((args, kwargs)) if _is_cast(leaf)]
            dtype = cast_of(floating) if floating else None
            args, kwargs = trees.tree_map(lambda leaf: leaf.to(dtype) if _is_cast(leaf) else leaf, (args, kwargs))
            return operation(*args, **kwargs)

    return kernel


def _summing(name: str) -> Callable[..., Any]:
    """Sums and softmax of half-precision numbers are of single precision unless a type is given."""
    operation = _operation(name)

    def kernel(first: Tensor, *args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_AUTOCAST)):
            has_type = kwargs.get("dtype") is not None or any(isinstance(provided, torch.dtype) for provided in args)
            if not has_type and first.dtype in (torch.float16, torch.bfloat16):
                return operation(first, *args, **{**kwargs, "dtype": torch.float32})
            return operation(first, *args, **kwargs)

    return kernel


def _is_cast(leaf: object) -> bool:
    if not isinstance(leaf, Tensor) or leaf.device.type != NAME:
        return False
    return leaf.is_floating_point() and leaf.dtype is not torch.float64


def _lower(tensors: list[Tensor]) -> torch.dtype:
    del tensors
    return torch.get_autocast_dtype(NAME)


def _single(tensors: list[Tensor]) -> torch.dtype:
    del tensors
    return torch.float32


def _widest(tensors: list[Tensor]) -> torch.dtype:
    return torch.float32 if any(tensor.dtype is torch.float32 for tensor in tensors) else _lower(tensors)
