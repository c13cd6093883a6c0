"""Decoding reads prompts of unequal length together: tokens that are not real are set aside, and each row's real ones
read as if they had come alone."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.mixers.documents import reordered


@dataclass(frozen=True)
class Realigned:
    """New tokens with the real ones of each row first."""

    x: Float[Tensor, "B L D"]
    num_real: Int[Tensor, " B"]
    order: Int[Tensor, "B L"]

    def back(self, y: Float[Tensor, "B L E"]) -> Float[Tensor, "B L E"]:
        """What was made of them, in their places again; what stands at others means nothing."""
        return reordered(y, self.order.argsort(1))


def realigned(x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Realigned | None:
    """None where all tokens are real."""
    if valid is None or bool(valid.all()):
        return None
    order = (~valid).long().argsort(dim=1, stable=True)
    return Realigned(reordered(x, order), valid.sum(1), order)
