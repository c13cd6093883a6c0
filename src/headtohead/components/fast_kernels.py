"""The only door to optional fast kernels: flash-linear-attention (https://github.com/fla-org/flash-linear-attention)
and mamba-ssm (https://github.com/state-spaces/mamba), imported only when installed and only for tensors on CUDA.

A mixer that a kernel can compute says so in three lines:

    class Retention(Accelerated, Attends):  # Accelerated is a Mixer
        def __init__(self, d_model, *, num_heads, causal, dropout=0.0, kernel: FlaKernel = "auto"):
            super().__init__()
            self.fast = FastKernel(kernel, SIMPLE_GLA)

        def _retained(self, q, k, v, log_decay):
            if (chunk_simple_gla := self.fast.function(v)) is not None:
                return chunk_simple_gla(q, k, v, g=log_decay, ...)  # as that package wants them
            return ...  # our own

`mixer.kernel_in_use()` then says what computes it where its parameters are, and `kernel=torch` turns the door off.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.components.component import CrossMixer, Mixer
from headtohead.errors import UsageError

FlaFunction = Callable[..., Any]
"""A function of fla, which `call_fla` calls."""
FlaKernel = Literal["auto", "torch", "fla"]
MambaKernel = Literal["auto", "torch", "mamba_ssm"]
Kernel = Literal["auto", "torch", "fla", "mamba_ssm"]

HALF = (torch.bfloat16, torch.float16)
SINGLE_OR_HALF = (torch.float32, *HALF)


@dataclass(frozen=True)
class Offer:
    """One function of one package, and the precisions it takes."""

    package: Literal["fla", "mamba_ssm"]
    module: str
    name: str
    dtypes: tuple[torch.dtype, ...] = SINGLE_OR_HALF


# Of fla all tensors are [B, L, H, K], decays logarithms in float32, and (output, final state [B, H, K, V]) is answered:
# scale=None divides by sqrt(K); initial_state, output_final_state=False; cu_seqlens for packed rows, with B = 1.
GLA = Offer("fla", "fla.ops.gla", "chunk_gla")
"""(q, k, v, g), g [B, L, H, K]."""
SIMPLE_GLA = Offer("fla", "fla.ops.simple_gla", "chunk_simple_gla")
"""(q, k, v, g=None, g_gamma=None), g [B, L, H] or a constant decay of each head g_gamma [H]."""
GATED_DELTA = Offer("fla", "fla.ops.gated_delta_rule", "chunk_gated_delta_rule", HALF)
"""(q, k, v, g, beta), g and beta [B, L, H]; keys of unit length."""
KIMI_DELTA = Offer("fla", "fla.ops.kda", "chunk_kda", HALF)
"""(q, k, v, g, beta), g [B, L, H, K]; keys of unit length."""
DELTA = Offer("fla", "fla.ops.delta_rule", "chunk_delta_rule", HALF)
"""(q, k, v, beta)."""
DIAGONAL_PLUS_LOW_RANK = Offer("fla", "fla.ops.generalized_delta_rule", "chunk_dplr_delta_rule")
"""(q, k, v, a, b, gk): S <- exp(gk) S + b (a^T S) + k v^T; RWKV-7's own name for it mistakes its log_w."""
# Of mamba-ssm.
SELECTIVE_SCAN = Offer("mamba_ssm", "mamba_ssm.ops.selective_scan_interface", "selective_scan_fn")
"""(u [B, E, L], delta [B, E, L], A [E, N], B [B, N, L], C [B, N, L], D=None, z=None, delta_bias=None,
delta_softplus=False, return_last_state=False) -> y [B, E, L]; the last state carries no gradient."""
CHUNK_SCAN = Offer("mamba_ssm", "mamba_ssm.ops.triton.ssd_combined", "mamba_chunk_scan_combined")
"""(x [B, L, H, P], dt [B, L, H], A [H], B [B, L, G, N], C [B, L, G, N], chunk_size, D=None, z=None, dt_bias=None,
initial_states=None, seq_idx=None, dt_softplus=False, return_final_states=False) -> y [B, L, H, P]; seq_idx [B, L] is
the number of each token's document."""

PROJECTS = {"fla": "flash-linear-attention", "mamba_ssm": "mamba-ssm"}


class FastKernel:
    """The requested implementation, the available kernels, and the choice among them for given tensors."""

    def __init__(self, requested: Kernel, *offers: Offer) -> None:
        self.requested, self.offers = requested, offers
        packages = [offer.package for offer in offers]
        if requested not in ("auto", "torch", *packages):
            raise UsageError(
                f"kernel={requested} is not available for this mixer: choose from auto, torch, {', '.join(packages)}"
            )
        if requested in packages and not _is_installed(requested):
            raise UsageError(
                f"kernel={requested} needs a package that is not installed: pip install {PROJECTS[requested]}, or use "
                "kernel=auto, which takes it only where it is there"
            )

    def function(self, like: Tensor) -> Callable[..., Any] | None:
        """Return the kernel for tensors such as this one; None means plain torch."""
        offer = self._offer_for(like.device, like.dtype)
        return None if offer is None else _loaded(offer.module, offer.name)

    def in_use(self, device: torch.device, dtype: torch.dtype) -> str:
        """Return the package that computes there, or torch."""
        offer = self._offer_for(device, dtype)
        return "torch" if offer is None else offer.package

    def _offer_for(self, device: torch.device, dtype: torch.dtype) -> Offer | None:
        if self.requested == "torch" or device.type == "meta":  # shapes alone need no kernel
            return None
        for offer in self.offers:
            if self.requested == offer.package:
                _require(offer, device, dtype)
                return offer
            if self.requested == "auto" and _is_installed(offer.package) and _reason(offer, device, dtype) is None:
                return offer if _loaded(offer.module, offer.name) is not None else None
        return None


class Accelerated(Mixer):
    """A mixer that a fast kernel may compute."""

    fast: FastKernel

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """Return torch, fla or mamba_ssm for the device of its parameters and their precision or autocast's."""
        parameter = next(self.parameters())
        there = device or parameter.device
        if dtype is None and torch.is_autocast_enabled(there.type):
            dtype = torch.get_autocast_dtype(there.type)
        return self.fast.in_use(there, dtype or parameter.dtype)


def kernels_in_use(
    model: nn.Module, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> dict[str, str]:
    """Return what computes every mixer of the model, by the mixer's path; `device` and `dtype` are those it will
    compute in, where it is not there yet."""
    mixers = {path: part for path, part in model.named_modules() if isinstance(part, Mixer | CrossMixer)}
    kernels = {path: mixer.kernel_in_use(device, dtype) for path, mixer in mixers.items()}
    return {path: kernel for path, kernel in kernels.items() if kernel}


def call_fla(
    function: FlaFunction,
    tensors: Mapping[str, Float[Tensor, "B H L *E"]],
    starts: Bool[Tensor, "B L"] | None,
    *,
    scale: float,
) -> Float[Tensor, "B H L V"]:
    """Apply one of fla's functions to whole sequences; packed rows become one row with the positions of its
    documents."""
    rows = {name: tensor.transpose(1, 2).contiguous() for name, tensor in tensors.items()}
    if starts is None:
        y, _ = function(**rows, scale=scale)
    else:
        one = {name: row.flatten(0, 1).unsqueeze(0) for name, row in rows.items()}
        y, _ = function(**one, scale=scale, cu_seqlens=boundaries(starts))
        y = y.unflatten(1, starts.shape).squeeze(0)
    mixed: Tensor = y.transpose(1, 2).to(tensors["v"].dtype)
    return mixed


def boundaries(starts: Bool[Tensor, "B L"]) -> Int[Tensor, " N"]:
    """Return where documents start once all rows are concatenated, and the end of the last: fla's cu_seqlens."""
    first = torch.zeros_like(starts)
    first[:, 0] = True
    positions = (starts | first).flatten().nonzero().flatten()
    return torch.cat((positions, positions.new_tensor([starts.numel()])))


def _require(offer: Offer, device: torch.device, dtype: torch.dtype) -> None:
    if (reason := _reason(offer, device, dtype)) is not None:
        raise UsageError(
            f"kernel={offer.package} {reason}: use kernel=auto, which takes torch's own way there, or another device "
            "or precision"
        )


def _reason(offer: Offer, device: torch.device, dtype: torch.dtype) -> str | None:
    """Return why the kernel cannot compute there; None where it can."""
    if not _has_kernels(device):
        return f"computes only on a CUDA device, and the tensors are on {device}"
    if dtype not in offer.dtypes:
        names = ", ".join(str(taken).removeprefix("torch.") for taken in offer.dtypes)
        return f"takes {names} here, and the tensors are {str(dtype).removeprefix('torch.')}"
    return None


def _has_kernels(device: torch.device) -> bool:
    return device.type == "cuda"


@cache
def _is_installed(package: str) -> bool:
    """Return whether the package is installed, without importing it."""
    return find_spec(package) is not None


@cache
def _loaded(module: str, name: str) -> Callable[..., Any] | None:
    """Return the function; None, with a warning, where the installed package does not provide it."""
    try:
        result: Callable[..., Any] | None = getattr(import_module(module), name)
        return result
    except (ImportError, AttributeError) as error:
        package = PROJECTS[module.partition(".")[0]]
        warnings.warn(f"{package} is installed but gives no {module}.{name} ({error}): torch computes", stacklevel=2)
        return None
