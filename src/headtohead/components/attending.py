"""Attention as numbers to look at: which mixers have it, and the explicit softmax that a fused kernel hides."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.contracts import Component, Context


class Attends(Component):
    """A mixer or cross mixer whose output is, head by head, a weighted sum over keys, and which can name the weights.

    Softmax attention has such weights by definition. A linear or state-space mixer has them implicitly: the matrix that
    takes its values to its outputs, with a head for each channel where channels differ. A mixer that does not derive
    from this has none to show. Only probes ask; training takes the mixer's own fast way.
    """

    sums_to_one: ClassVar[bool] = True
    """Whether a query's weights are divided by a total over its keys, and so are shares (see `gives_shares`)."""

    def gives_shares(self, context: Context) -> bool:
        """Whether a query's weights are shares here: none below 0, together 1 (or 0 where it may look nowhere)."""
        del context
        return self.sums_to_one

    @abstractmethod
    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """How much of each key every query takes, by the queries, keys, biases and masks of `forward`, without dropout.

        `causal` turns the mixer's own causal mask on or off for this answer alone (a memory has none); None leaves it.
        A query that may look nowhere has zeros; heads that share keys are given one by one.
        """

    @abstractmethod
    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        """The output that these weights give; those of `attention` give what `forward` gives."""


def softmax_weights(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B G M K"],
    *,
    bias: Float[Tensor, "#B #H #L M"] | None,
    scale: float,
) -> Float[Tensor, "B H L M"]:
    """softmax(scale q k^T + bias) in float32 at least; a row that may look nowhere gives zeros."""
    exact = torch.promote_types(q.dtype, torch.float32)
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    with torch.autocast(q.device.type, enabled=False):
        scores = scale * (q.to(exact) @ k.to(exact).mT)
    if bias is not None:
        scores = scores + bias.to(exact)
    empty = (scores == float("-inf")).all(-1, keepdim=True)
    return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
