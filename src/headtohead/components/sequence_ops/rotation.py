"""Queries and keys are rotated by their positions, where the encoding in force rotates any."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Context


def rotated_by_position(
    q: Float[Tensor, "B H L K"], k: Float[Tensor, "B G L K"], context: Context
) -> tuple[Float[Tensor, "B H L K"], Float[Tensor, "B G L K"]]:
    """Return queries and keys, rotated by the context's encoding where it has a rotation."""
    if context.encoding is None or context.rotation is None:
        return q, k
    return context.encoding.rotate(q, context.rotation), context.encoding.rotate_keys(k, context.rotation)
