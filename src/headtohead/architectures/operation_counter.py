"""The counter counts the operations of a computation, and knows none of the formulas that components declare.

Matrix products and convolutions are counted from the shapes that reach the dispatcher; attention kernels by the pairs
of query and key that their mask allows; everything else as one operation per output element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from headtohead.components.without_memory import has_values

Bound = Mapping[str, Any]
"""The arguments of one operation by the names of its schema."""

MOVES_ONLY = frozenset({
    "_to_copy", "_unsafe_view", "alias", "arange", "cat", "clone", "constant_pad_nd", "contiguous", "copy", "copy_",
    "detach", "embedding", "embedding_dense_backward", "empty", "empty_like", "empty_strided", "expand_copy",
    "fill", "fill_", "flip", "full", "full_like", "gather", "index", "index_copy", "index_put", "index_put_",
    "index_select", "lift_fresh", "masked_select", "new_empty", "new_empty_strided", "new_full", "new_ones",
    "new_zeros", "nonzero", "ones", "ones_like", "rand", "rand_like", "randint", "randn", "repeat", "roll",
    "scalar_tensor", "scatter", "select_backward", "select_scatter", "slice_backward", "slice_scatter",
    "split_with_sizes_copy", "stack", "tril_indices", "triu_indices", "unbind_copy", "unfold_backward", "zero_",
    "zeros", "zeros_like",
})  # fmt: skip
"""Operations that compute nothing: they make room, look up, or move."""


@dataclass
class Counts:
    """FLOPs; one multiply-add is two."""

    products: int = 0
    elementwise: int = 0
    by_operation: dict[str, int] = field(default_factory=dict)
    """Both, by the name of the operation."""


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = Counts()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name not in PRODUCTS:
            # Inside inference mode, compound operations arrive whole.
            with self:
                decomposed = func.decompose(*args, **kwargs)
            if decomposed is not NotImplemented:
                return decomposed
        out = func(*args, **kwargs)
        if name in PRODUCTS:
            flops = product_flops(func, args, kwargs, out)
            self.counts.products += flops
        else:
            flops = 0 if name in MOVES_ONLY or func.is_view else _num_elements(out)
            self.counts.elementwise += flops
        if flops:
            self.counts.by_operation[name] = self.counts.by_operation.get(name, 0) + flops
        return out


@contextmanager
def counting(*, explicit_attention: bool = False) -> Iterator[Counts]:
    """Counts all that happens inside, backward passes too.

    `explicit_attention` takes the fused kernel apart, so that the elementwise work in it is seen; a causal mask is
    then computed in full, as the explicit form does.
    """
    with ExitStack() as stack:
        if explicit_attention:
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        yield stack.enter_context(_Counter()).counts


@contextmanager
def saved_bytes(module: nn.Module) -> Iterator[Callable[[], int]]:
    """Count the bytes that autograd saves for the backward pass, each storage once, without the module's own
    parameters."""
    own = {_storage_id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    saved: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        if _storage_id(tensor) not in own:
            saved[_storage_id(tensor)] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield lambda: sum(tensor.untyped_storage().nbytes() for tensor in saved.values())


def product_flops(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, object], out: Any) -> int:
    """Return the FLOPs of one operation that is a matrix product, a convolution or attention; 0 for any other."""
    count = PRODUCTS.get(func.overloadpacket.__name__)
    return 0 if count is None else count(_bind(func, args, dict(kwargs)), out)


def _storage_id(tensor: Tensor) -> int:
    count: int = tensor.untyped_storage()._cdata
    return count


def _num_elements(out: Any) -> int:
    if isinstance(out, Tensor):
        return out.numel()
    return sum(_num_elements(item) for item in out) if isinstance(out, list | tuple) else 0


def _bind(func: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> Bound:
    schema = func._schema.arguments
    defaults = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    return {**defaults, **dict(zip((argument.name for argument in schema), args, strict=False)), **kwargs}


def _product(left: str, right: str) -> Callable[[Bound, Any], int]:
    def flops(bound: Bound, out: Any) -> int:
        del out
        a, b = bound[left], bound[right]
        count: int = 2 * a.numel() * b.shape[-1]
        return count

    return flops


def _matrix_vector(bound: Bound, out: Any) -> int:
    del out
    matrix: Tensor = bound["self"] if bound["self"].dim() == 2 else bound["mat"]
    return 2 * matrix.numel()


def _dot(bound: Bound, out: Any) -> int:
    del out
    return 2 * int(bound["self"].numel())


def _one_convolution(bound: Bound, output: Tensor) -> int:
    """Return the operations of one convolution: every weight of a group meets every position of the output (of the
    input, where transposed)."""
    indices = bound["input"] if bound["transposed"] else output
    per_output = math.prod(bound["weight"].shape[1:])
    count: int = 2 * indices.numel() * per_output
    return count


def _convolution(bound: Bound, out: Any) -> int:
    return _one_convolution(bound, out)


def _convolution_backward(bound: Bound, out: Any) -> int:
    """Return the gradients by the input and by the weight, each as much as a forward pass, where they are requested."""
    del out
    by_input, by_weight, _ = bound["output_mask"]
    return (bool(by_input) + bool(by_weight)) * _one_convolution(bound, bound["grad_output"])


def _transform(real: str) -> Callable[[Bound, Any], int]:
    """Return 5/2 N log2 N for N real numbers, half of what as many complex ones take (Cooley and Tukey 1965,
    https://doi.org/10.1090/S0025-5718-1965-0178586-1)."""

    def flops(bound: Bound, out: Any) -> int:
        numbers = out if real == "output" else bound["self"]
        count: int = round(2.5 * numbers.numel() * math.log2(numbers.shape[bound["dim"][-1]]))
        return count

    return flops


def _complex_transform(bound: Bound, out: Tensor) -> int:
    """Return 5 N log2 N for N complex numbers, along each dimension."""
    return round(sum(5 * out.numel() * math.log2(out.shape[dim]) for dim in bound["dim"]))


def _attention(products: int) -> Callable[[Bound, Any], int]:
    """Count `products` matrix products over the pairs that the mask allows: 2 forward, 4 backward."""

    def flops(bound: Bound, out: Any) -> int:
        del out
        query, value = bound["query"], bound["value"]
        pairs = _allowed_pairs(bound)
        count: int = products * pairs * (query.shape[-1] + value.shape[-1])
        return count

    return flops


def _allowed_pairs(bound: Bound) -> int:
    query, key = bound["query"], bound["key"]
    batch, heads, length, _ = query.shape
    num_keys = key.shape[-2]
    mask = bound.get("attn_mask", bound.get("attn_bias"))
    if mask is not None and not has_values(mask):
        count: int = batch * heads * length * num_keys
    elif mask is not None:
        allowed = mask if mask.dtype == torch.bool else mask > float("-inf")
        share = batch * heads * length * num_keys // mask.numel()
        count = int(allowed.sum()) * share
    elif bound.get("is_causal"):
        count = batch * heads * sum(min(index + 1, num_keys) for index in range(length))
    else:
        count = batch * heads * length * num_keys
    return count


def _recurrent(products: int) -> Callable[[Bound, Any], int]:
    """Count kernels of whole recurrent layers: every token meets each matrix, once forward and twice backward."""

    def flops(bound: Bound, out: Any) -> int:
        del out
        held = bound["weight"] if "weight" in bound else [bound[name] for name in bound if name.startswith("weight")]
        matrices = sum(weight.numel() for weight in held if weight.ndim == 2)
        tokens = bound["input"].numel() // bound["input"].shape[-1]
        count: int = 2 * products * tokens * matrices
        return count

    return flops


_FUSED = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
PRODUCTS: dict[str, Callable[[Bound, Any], int]] = {
    "mm": _product("self", "mat2"),
    "bmm": _product("self", "mat2"),
    "addmm": _product("mat1", "mat2"),
    "baddbmm": _product("batch1", "batch2"),
    "mv": _matrix_vector,
    "addmv": _matrix_vector,
    "dot": _dot,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_fft_r2c": _transform("input"),
    "_fft_c2r": _transform("output"),
    "_fft_c2c": _complex_transform,
    **dict.fromkeys(("mkldnn_rnn_layer", "_cudnn_rnn"), _recurrent(1)),
    **dict.fromkeys(("mkldnn_rnn_layer_backward", "_cudnn_rnn_backward"), _recurrent(2)),
    **{f"_scaled_dot_product_{kernel}": _attention(2) for kernel in _FUSED},
    **{f"_scaled_dot_product_{kernel}_backward": _attention(4) for kernel in _FUSED},
}
