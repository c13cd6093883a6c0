"""The product of softmax attention, by the fastest kernel that can make it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend

from headtohead.components.attention_maps import scores_of
from headtohead.components.sequence_ops.score_masks import as_bias, causal_mask

FUSED_ATTENTION = "fused attention"
"""The kernel that `attend` runs."""


def attend(
    q: Float[Tensor, "B H L E"],
    k: Float[Tensor, "B G M E"],
    v: Float[Tensor, "B G M K"],
    *,
    bias: Float[Tensor, "#B #H #L M"] | None,
    causal: bool,
    scale: float,
    dropout: float,
    cap: float | None = None,
) -> Float[Tensor, "B H L K"]:
    """Return softmax(scale q k^T + bias) v by the fused kernel, which knows no cap of scores; a row that may attend
    nowhere gives zero."""
    if cap is not None:
        return _attend_capped(q, k, v, bias=bias, causal=causal, scale=scale, dropout=dropout, cap=cap)
    if narrower := q.shape[-1] - v.shape[-1]:  # the kernel takes one width
        wide = attend(q, k, F.pad(v, (0, narrower)), bias=bias, causal=causal, scale=scale, dropout=dropout)
        return wide[..., : v.shape[-1]]
    grouped = k.shape[1] != q.shape[1]
    if grouped and not takes_groups(q.device.type, q.dtype.itemsize, has_bias=bias is not None):
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
        grouped = False
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, dropout_p=dropout, is_causal=causal and bias is None, scale=scale, enable_gqa=grouped
    )


def _attend_capped(
    q: Float[Tensor, "B H L E"],
    k: Float[Tensor, "B G M E"],
    v: Float[Tensor, "B G M K"],
    *,
    bias: Float[Tensor, "#B #H #L M"] | None,
    causal: bool,
    scale: float,
    dropout: float,
    cap: float,
) -> Float[Tensor, "B H L K"]:
    """Return softmax(cap tanh(scale q k^T / cap) + bias) v by matrix products."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    if bias is None:  # then every query sees a key
        mask = as_bias(causal_mask(q.shape[2], k.shape[2], q.device), q.dtype) if causal else None
        weights = scores_of(q, k, bias=mask, scale=scale, cap=cap).softmax(-1)
        return F.dropout(weights, dropout).to(v.dtype) @ v
    empty = (bias == float("-inf")).all(-1, keepdim=True)
    weights = scores_of(q, k, bias=bias, scale=scale, cap=cap).masked_fill(empty, 0.0).softmax(-1)
    return (F.dropout(weights, dropout).to(v.dtype) @ v).masked_fill(empty, 0.0)


def takes_groups(device: str, bytes_per_element: int, *, has_bias: bool) -> bool:
    """Return whether a fused kernel reads keys that several heads share; else each head gets a copy of its own.

    On a GPU that is the one for 16 bits without a mask; on a CPU it came with a version of torch.
    """
    if has_bias:
        return False
    return bytes_per_element == 2 if device == "cuda" else CPU_TAKES_GROUPS


def _cpu_takes_groups() -> bool:
    """Ask torch's own choice of a kernel, without one token computed."""
    q, kv = (torch.empty(1, heads, 1, 8, device="cpu", dtype=torch.float32) for heads in (2, 1))
    return torch._fused_sdp_choice(q, kv, kv, enable_gqa=True) == SDPBackend.FLASH_ATTENTION.value


CPU_TAKES_GROUPS = _cpu_takes_groups()
