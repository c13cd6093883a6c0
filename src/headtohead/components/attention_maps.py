"""Attention maps for inspection: which mixers have them, and the explicit softmax that a fused kernel hides."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.component import Component, Context, Grid
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.soft_cap import soft_capped


class HasAttentionMaps(Component):
    """A mixer or cross mixer whose output is, head by head, a weighted sum over keys, and which can return the weights.

    Softmax attention has such weights by definition. A linear or state-space mixer has them implicitly: the matrix that
    takes its values to its outputs, with a head for each channel where channels differ. A mixer that does not derive
    from this has no maps. Only probes compute them; training uses the mixer's own fast path.
    """

    sums_to_one: ClassVar[bool] = True
    """Whether a query's weights are divided by a total over its keys, and so are shares (see `gives_shares`)."""

    def gives_shares(self, context: Context) -> bool:
        """Return whether a query's weights are shares here: non-negative and summing to 1 (or 0 where it may attend
        nowhere)."""
        del context
        return self.sums_to_one

    grid: Grid | None = None
    """Rows and columns of its tokens, where they are not the patches that the model begins with."""

    @abstractmethod
    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return how much of each key every query takes, by the queries, keys, biases and masks of `forward`, without
        dropout.

        `causal` turns the mixer's own causal mask on or off for this answer alone (a memory has none); None leaves it.
        A query that may attend nowhere has zeros; heads that share keys are returned one by one.
        """

    @abstractmethod
    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        """Return the output that these weights give; the weights of `attention` give the output of `forward`."""


def scores_of(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B H M K"],
    *,
    bias: Float[Tensor, "#B #H #L M"] | None,
    scale: float,
    cap: float | None,
) -> Float[Tensor, "B H L M"]:
    """Return scale q k^T, softly capped where there is a cap, plus the bias, in float32 at least."""
    exact = at_least_float32(q.dtype)
    with without_autocast(q):
        scores = soft_capped(scale * (q.to(exact) @ k.to(exact).mT), cap)
    return scores if bias is None else scores + bias.to(exact)


def softmax_weights(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B G M K"],
    *,
    bias: Float[Tensor, "#B #H #L M"] | None,
    scale: float,
    cap: float | None = None,
) -> Float[Tensor, "B H L M"]:
    """Return softmax(scale q k^T + bias) in float32 at least; a row that may attend nowhere gives zeros."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = scores_of(q, k, bias=bias, scale=scale, cap=cap)
    empty = (scores == float("-inf")).all(-1, keepdim=True)
    return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


def implicit_decays(
    log_decay: Float[Tensor, "B L E"], document_starts: Bool[Tensor, "B L"] | None = None
) -> Float[Tensor, "B E L L"]:
    """Return what is left at token t of the contribution of token s <= t: exp of the summed log decays after s up to t,
    and 0 across document boundaries. Sums are in float64, since they grow with the length."""
    total = log_decay.double().cumsum(1).transpose(1, 2)
    seen = visible_pairs(log_decay, document_starts)
    return (total[..., :, None] - total[..., None, :]).masked_fill(~seen, float("-inf")).exp().to(log_decay.dtype)


def visible_pairs(like: Float[Tensor, "B L E"], document_starts: Bool[Tensor, "B L"] | None) -> Bool[Tensor, "B 1 L L"]:
    """Return a mask of the pairs in which the key is the query itself or precedes it in the same document."""
    length = like.shape[1]
    seen = torch.ones(length, length, dtype=torch.bool, device=like.device).tril().expand(len(like), 1, -1, -1)
    if document_starts is None:
        return seen
    number = document_starts.long().cumsum(1)
    return seen & (number[:, :, None] == number[:, None, :])[:, None]


def weighted_values(weights: Float[Tensor, "B E L M"], values: Float[Tensor, "B M E"]) -> Float[Tensor, "B L E"]:
    """Apply every channel's weights to its own values."""
    return torch.einsum("belm,bme->ble", weights.to(values.dtype), values)
