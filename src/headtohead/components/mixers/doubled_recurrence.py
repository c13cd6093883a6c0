"""Recurrences of matrices without a loop over tokens or chunks, for exported graphs, which do not know the length: what
two spans do to a state, one after the other, is again a matrix times the state plus another one."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.mixers.scan import EXPORTED_DOUBLINGS


def recur_by_doubling(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B H L K"],
    v: Float[Tensor, "B H L V"],
    log_decay: Float[Tensor, "B H L #K"],
    *,
    reads: Float[Tensor, "B H L K"] | None,
    writes: Float[Tensor, "B H L K"] | None,
    state: Float[Tensor, "B H K V"] | None,
    starts: Bool[Tensor, "B L"] | None,
) -> tuple[Float[Tensor, "B H L V"], Float[Tensor, "B H K V"]]:
    """As `recur`; every token's matrix is there at once, so this is for lengths that one decodes or serves."""
    kept = log_decay.exp()
    if starts is not None:
        kept = kept * ~starts[:, None, :, None]
    turn = torch.diag_embed(kept.expand_as(k))
    if reads is not None:
        turn = turn + (k if writes is None else writes)[..., None] * (reads * kept)[..., None, :]
    states = k[..., None] * v[..., None, :]
    for doubling in range(EXPORTED_DOUBLINGS):
        span = 2**doubling
        states = states + turn @ _later(states, span)
        turn = turn @ _later(turn, span, itself=True)
    if state is not None:
        states = states + turn @ state[:, :, None]
    return (q[..., None, :] @ states).squeeze(-2), states[:, :, -1]


def _later(x: Float[Tensor, "B H L K E"], span: int, *, itself: bool = False) -> Float[Tensor, "B H L K E"]:
    """What stood `span` tokens before; before the first token nothing happens: states are zero, and stay themselves."""
    source = torch.arange(x.shape[2], device=x.device) - span
    earlier, is_there = x.index_select(2, source.clamp(min=0)), (source >= 0)[:, None, None]
    nothing = torch.eye(x.shape[-1], device=x.device, dtype=x.dtype) if itself else x.new_zeros(())
    return torch.where(is_there, earlier, nothing)
