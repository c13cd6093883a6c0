"""Rows of unequal length are read together: padding, wherever it stands, moves behind a row's real tokens, which are
then read as if they had come alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.contracts import Context
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
    return None if valid is None or bool(valid.all()) else real_first(x, valid)


def real_first(x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"]) -> Realigned:
    """Return the rows with padding on the right, without a look at the mask's values, for which a GPU would wait."""
    order = (~valid).long().argsort(dim=1, stable=True)
    return Realigned(reordered(x, order), valid.sum(1), order)


def in_order(context: Context, order: Int[Tensor, "B L"]) -> Context:
    """Return what the context says of the tokens, read in another order."""
    valid, segments, positions = (
        None if of_tokens is None else reordered(of_tokens.expand(len(order), -1), order)
        for of_tokens in (context.valid, context.segments, context.positions)
    )
    return replace(context, valid=valid, segments=segments, positions=positions)
