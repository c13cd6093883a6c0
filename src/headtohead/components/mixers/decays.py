"""Products of decays between the tokens of a chunk, in three ways: one decay for all channels of a head, one for each
channel that is never strong, one for each channel whatever it is (Yang et al. 2023, https://arxiv.org/abs/2312.06635).

G are the sums of the logarithms of the decays from the start of the chunk. Only differences that are not above zero are
exponentiated, or small ones: nothing overflows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Queries = Float[Tensor, "B H N P C K"]
"""P kinds of them for each of the C tokens of each of N chunks."""
Keys = Float[Tensor, "B H N Q C K"]
"""Q kinds of them."""
Scores = Float[Tensor, "B H N P C Q C"]
"""Of all kinds of queries with all kinds of keys."""


class Decay(ABC):
    """How much is left, of what each token of a chunk writes, for the later ones, and for the end of the chunk."""

    def __init__(self, log_decay: Float[Tensor, "B H N C E"], document: Int[Tensor, "B 1 N C 1"] | None) -> None:
        self.sums = log_decay.cumsum(-2)
        end = self.sums[..., -1:, :]
        self.from_start, self.to_end, self.whole = self.sums.exp(), (end - self.sums).exp(), end.exp()
        place = torch.arange(log_decay.shape[-2], device=log_decay.device)
        self.allowed: Bool[Tensor, "*any C C"] = place[:, None] >= place
        if document is not None:  # a state is forgotten where the next document starts
            last = document[..., -1:, :]
            self.from_start = self.from_start * (document == 0)
            self.to_end = self.to_end * (document == last)
            self.whole = self.whole * (last == 0)
            self.allowed = self.allowed & (document == document.mT)

    def read(self, queries: Queries) -> Queries:
        """Queries as they meet the state before the chunk."""
        return queries * self.from_start[..., None, :, :]

    def kept(self, keys: Keys) -> Keys:
        """Keys as they stand in the state after the chunk."""
        return keys * self.to_end[..., None, :, :]

    @abstractmethod
    def scores(self, queries: Queries, keys: Keys) -> Scores:
        """q_i^T diag(exp(G_i - G_j)) k_j for j <= i in the same document; the second kind of queries for j < i."""

    @abstractmethod
    def scores_backward(self, grad: Scores, queries: Queries, keys: Keys) -> tuple[Queries, Keys]:
        """Gradients by queries and keys."""

    def _masked(self, scores: Scores) -> Scores:
        return scores * _strict_for_second(self.allowed, scores.shape[-4]).unsqueeze(-2)


def _strict_for_second(allowed: Tensor, num_queries: int) -> Tensor:
    """[..., C, C] as [..., P, C, C]."""
    return torch.stack((allowed, allowed.tril(-1))[:num_queries], dim=-3)


def _products(queries: Queries, keys: Keys) -> Scores:
    """q_i^T k_j of all kinds with all kinds, as one product of matrices."""
    flat = queries.flatten(-3, -2) @ keys.flatten(-3, -2).mT
    return flat.unflatten(-2, queries.shape[-3:-1]).unflatten(-1, keys.shape[-3:-1])


def _products_backward(grad: Scores, queries: Queries, keys: Keys) -> tuple[Queries, Keys]:
    flat = grad.flatten(-4, -3).flatten(-2, -1)
    by_queries = (flat @ keys.flatten(-3, -2)).view_as(queries)
    return by_queries, (flat.mT @ queries.flatten(-3, -2)).view_as(keys)


class SharedDecay(Decay):
    """One decay for all channels: exp(G_i - G_j) stands beside the product."""

    def __init__(self, log_decay: Float[Tensor, "B H N C 1"], document: Int[Tensor, "B 1 N C 1"] | None) -> None:
        super().__init__(log_decay, document)
        self.between = (self.sums - self.sums.mT).clamp(max=0).exp() * self.allowed

    def scores(self, queries: Queries, keys: Keys) -> Scores:
        return _products(queries, keys) * _strict_for_second(self.between, queries.shape[-3]).unsqueeze(-2)

    def scores_backward(self, grad: Scores, queries: Queries, keys: Keys) -> tuple[Queries, Keys]:
        between = _strict_for_second(self.between, queries.shape[-3]).unsqueeze(-2)
        return _products_backward(grad * between, queries, keys)


class BoundedDecay(Decay):
    """No decay so strong that its product over half a chunk overflows: exp(G_i - c) exp(c - G_j), c in the middle."""

    def __init__(self, log_decay: Float[Tensor, "B H N C K"], document: Int[Tensor, "B 1 N C 1"] | None) -> None:
        super().__init__(log_decay, document)
        centred = self.sums - self.sums[..., log_decay.shape[-2] // 2, None, :]
        self.of_query, self.of_key = centred.exp()[..., None, :, :], centred.neg().exp()[..., None, :, :]

    def scores(self, queries: Queries, keys: Keys) -> Scores:
        return self._masked(_products(queries * self.of_query, keys * self.of_key))

    def scores_backward(self, grad: Scores, queries: Queries, keys: Keys) -> tuple[Queries, Keys]:
        products = _products_backward(self._masked(grad), queries * self.of_query, keys * self.of_key)
        return products[0] * self.of_query, products[1] * self.of_key


class AnyDecay(Decay):
    """A chunk is halved, and its halves again: late tokens meet early ones at the border between them, where both
    exponents, G_i - G_border and G_border - G_j, are at most zero. One kind of queries and of keys; C a power of two.
    """

    def __init__(self, log_decay: Float[Tensor, "B H N C K"], document: Int[Tensor, "B 1 N C 1"] | None) -> None:
        super().__init__(log_decay, document)
        self.levels: list[tuple[Tensor, Tensor]] = []
        half = log_decay.shape[-2] // 2
        while half:
            early, late = _halves(self.sums, half)
            border = early[..., -1:, :]
            self.levels.append(((late - border).exp(), (border - early).exp()))
            half //= 2

    def scores(self, queries: Queries, keys: Keys) -> Scores:
        q, k = queries.squeeze(-3), keys.squeeze(-3)
        scores = torch.diag_embed((q * k).sum(-1))
        for of_late, of_early in self.levels:
            half = of_late.shape[-2]
            late, early = _halves(q, half)[1] * of_late, _halves(k, half)[0] * of_early
            _corners(scores, half).copy_(late @ early.mT)
        return self._masked(scores[..., None, :, None, :])

    def scores_backward(self, grad: Scores, queries: Queries, keys: Keys) -> tuple[Queries, Keys]:
        q, k, grad = queries.squeeze(-3), keys.squeeze(-3), self._masked(grad)[..., 0, :, 0, :]
        itself = grad.diagonal(dim1=-2, dim2=-1)[..., None]
        by_q, by_k = itself * k, itself * q
        for of_late, of_early in self.levels:
            half = of_late.shape[-2]
            late, early = _halves(q, half)[1] * of_late, _halves(k, half)[0] * of_early
            corner = _corners(grad, half)
            _halves(by_q, half)[1].addcmul_(_times(corner, early), of_late)
            _halves(by_k, half)[0].addcmul_(_times(corner.mT, late), of_early)
        return by_q.unsqueeze(-3), by_k.unsqueeze(-3)


def _times(few: Tensor, rows: Tensor) -> Tensor:
    """few @ rows; matrices of one or two columns are quicker multiplied out."""
    if few.shape[-1] > 2:
        return few @ rows
    return (few[..., None] * rows[..., None, :, :]).sum(-2)


def _halves(x: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """Views of x[..., C, K]: the early and the late half [..., C / 2 half, half, K] of each part of a chunk."""
    parts = x.unflatten(-2, (-1, 2, half))
    return parts[..., 0, :, :], parts[..., 1, :, :]


def _corners(scores: Tensor, half: int) -> Tensor:
    """A view of scores[..., C, C]: late queries with early keys [..., C / 2 half, half, half] of each part."""
    blocks = scores.unflatten(-1, (-1, 2, half)).unflatten(-4, (-1, 2, half))
    return blocks[..., 1, :, :, 0, :].diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
