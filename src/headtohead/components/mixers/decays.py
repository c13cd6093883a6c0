"""Products of decays between the tokens of a chunk, in three ways: one decay for all channels of a head, one for each
channel that is not strong, one for each channel whatever it is (Yang et al. 2023, https://arxiv.org/abs/2312.06635).

G are the sums of the logarithms of the decays from the start of the chunk. Only differences that are not above zero are
exponentiated, or small ones: nothing overflows. All that comes in is M matrices, one for each chunk and head.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.components.mixers.triangular import corners

Queries = Float[Tensor, "M P C K"]
"""P kinds of them for each of the C tokens of a chunk."""
Keys = Float[Tensor, "M Q C K"]
"""Q kinds of them."""
Scores = Float[Tensor, "M PC QC"]
"""Of all kinds of queries with all kinds of keys."""
Document = Int[Tensor, "M C 1"]
"""How many documents have begun in the chunk."""
BEARABLE = 60.0
"""A decay by exp(-60) and its inverse are numbers of float32."""


class Decay(ABC):
    """What is left, of what each token of a chunk writes, for the later ones, and for the end of the chunk.

    With S the state as the chunk reads it and z what it writes: reads + scores z, and the next chunk's state is
    leaving (passing S + kept^T z).
    """

    scores: Scores
    """q_i^T diag(exp(G_i - G_j)) k_j for j <= i in the same document; the second kind of queries for j < i."""
    read: Float[Tensor, "M PC K"]
    """Queries as they meet the state before the chunk."""
    kept: Float[Tensor, "M QC K"]
    """Keys as they stand in the state after the chunk."""
    entering: Float[Tensor, "N G K 1"] | None = None
    """By what a state is multiplied as a chunk takes it over; the chunks of G heads one after the other."""
    passing: Float[Tensor, "M _ 1"] | None = None
    leaving: Float[Tensor, "M K 1"] | None = None

    def __init__(self, queries: Queries, keys: Keys, document: Document | None) -> None:
        self.kinds = (queries.shape[1], keys.shape[1])
        place = torch.arange(queries.shape[2], device=queries.device)
        self.allowed: Tensor = place[:, None] >= place
        if document is not None:
            self.allowed = self.allowed & (document == document.mT)

    def masked(self, scores: Scores, factors: Float[Tensor, "M C C"] | None = None) -> Scores:
        """What is allowed, or where it is so already every kind times the factors; in place."""
        size = self.allowed.shape[-1]
        blocks = scores.view(len(scores), self.kinds[0], size, self.kinds[1], size)
        if factors is not None:
            blocks.mul_(factors.unsqueeze(-2).unsqueeze(-4))
        elif self.allowed.dim() == 3:  # of several documents
            blocks.masked_fill_(~self.allowed.unsqueeze(-2).unsqueeze(-4), 0.0)
        for query, key in product(*map(range, self.kinds)):
            blocks[:, query, :, key].tril_(-query)
        return scores

    @abstractmethod
    def backward(self, by_scores: Scores, by_read: Tensor, by_kept: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of queries and keys, [M, PC, K] and [M, QC, K], which may take the place of what is given."""


class SharedDecay(Decay):
    """One decay for all channels: exp(G_i - G_j) stands beside the product."""

    def __init__(self, queries: Queries, keys: Keys, sums: Float[Tensor, "M C 1"], document: Document | None) -> None:
        super().__init__(queries, keys, document)
        self.queries, self.keys = queries.flatten(1, 2), keys.flatten(1, 2)
        self.between = (sums - sums.mT).clamp_(max=0).exp_() * self.allowed
        self.from_start, self.to_end, self.passing = _at_the_ends(sums, document)
        self.scores = self.masked(self.queries @ self.keys.mT, self.between)
        self.read = (queries * self.from_start.unsqueeze(1)).flatten(1, 2)
        self.kept = (keys * self.to_end.unsqueeze(1)).flatten(1, 2)

    def backward(self, by_scores: Scores, by_read: Tensor, by_kept: Tensor) -> tuple[Tensor, Tensor]:
        self.masked(by_scores, self.between)
        for part, kinds, factor in zip((by_read, by_kept), self.kinds, (self.from_start, self.to_end), strict=True):
            part.unflatten(1, (kinds, -1)).mul_(factor.unsqueeze(1))
        return by_read.baddbmm_(by_scores, self.keys), by_kept.baddbmm_(by_scores.mT, self.queries)


class BoundedDecay(Decay):
    """No decay so strong that its product over a chunk overflows: exp(G_i - c) exp(c - G_j), c in the middle.

    Queries and keys take these factors once, and the state those of the middle: a chunk then reads and writes it as
    if there were no decay.
    """

    def __init__(
        self, queries: Queries, keys: Keys, sums: Float[Tensor, "M C K"], document: Document | None, num_chunks: int
    ) -> None:
        super().__init__(queries, keys, document)
        middle = sums[:, sums.shape[1] // 2, None]
        self.of_query = (sums - middle).exp_()
        self.of_key = self.of_query.reciprocal()
        self.queries, self.keys = (
            (part * factor.unsqueeze(1)).flatten(1, 2)
            for part, factor in ((queries, self.of_query), (keys, self.of_key))
        )
        self.scores = self.masked(self.queries @ self.keys.mT)
        self.read, self.kept, self.document = self.queries, self.keys, document
        if document is not None:
            self.read, self.kept = self._of_one_document(self.read, self.kept)
            self.passing = (document[:, -1:] == 0).to(sums.dtype)
        self.entering = middle.mT.exp().unflatten(0, (num_chunks, -1))
        next_middle = torch.cat((self.entering[1:], torch.ones_like(self.entering[:1])))
        self.leaving = (sums[:, -1:] - middle).mT.exp_() * next_middle.flatten(0, 1)

    def _of_one_document(self, read: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        """Queries of the first one, keys of the last."""
        if self.document is None:
            return read, kept
        first, last = self.document == 0, self.document == self.document[:, -1:]
        return read * first.repeat(1, self.kinds[0], 1), kept * last.repeat(1, self.kinds[1], 1)

    def backward(self, by_scores: Scores, by_read: Tensor, by_kept: Tensor) -> tuple[Tensor, Tensor]:
        self.masked(by_scores)
        by_read, by_kept = self._of_one_document(by_read, by_kept)
        by_read, by_kept = by_read.baddbmm_(by_scores, self.keys), by_kept.baddbmm_(by_scores.mT, self.queries)
        for part, kinds, factor in zip((by_read, by_kept), self.kinds, (self.of_query, self.of_key), strict=True):
            part.unflatten(1, (kinds, -1)).mul_(factor.unsqueeze(1))
        return by_read, by_kept


class AnyDecay(Decay):
    """A chunk is halved, and its halves again: late tokens meet early ones at the border between them, where both
    exponents, G_i - G_border and G_border - G_j, are at most zero. One kind of queries and of keys; C a power of two.
    """

    def __init__(self, queries: Queries, keys: Keys, sums: Float[Tensor, "M C K"], document: Document | None) -> None:
        super().__init__(queries, keys, document)
        self.queries, self.keys = queries.squeeze(1), keys.squeeze(1)
        self.from_start, self.to_end, self.passing = _at_the_ends(sums, document)
        self.read, self.kept = self.queries * self.from_start, self.keys * self.to_end
        self.levels: list[tuple[Tensor, Tensor]] = []
        self.scores = torch.diag_embed((self.queries * self.keys).sum(-1))
        half = sums.shape[1] // 2
        while half:
            early, late = _halves(sums, half)
            border = early[..., -1:, :]
            of_late, of_early = (late - border).exp_(), (border - early).exp_()
            self.levels.append((of_late, of_early))
            products = (_halves(self.queries, half)[1] * of_late) @ (_halves(self.keys, half)[0] * of_early).mT
            corners(self.scores, half).copy_(products)
            half //= 2
        self.masked(self.scores)

    def backward(self, by_scores: Scores, by_read: Tensor, by_kept: Tensor) -> tuple[Tensor, Tensor]:
        self.masked(by_scores)
        itself = by_scores.diagonal(dim1=-2, dim2=-1)[..., None]
        by_q = by_read.mul_(self.from_start).addcmul_(itself, self.keys)
        by_k = by_kept.mul_(self.to_end).addcmul_(itself, self.queries)
        for of_late, of_early in self.levels:
            half = of_late.shape[-2]
            late, early = _halves(self.queries, half)[1] * of_late, _halves(self.keys, half)[0] * of_early
            corner = corners(by_scores, half)
            _halves(by_q, half)[1].addcmul_(_times(corner, early), of_late)
            _halves(by_k, half)[0].addcmul_(_times(corner.mT, late), of_early)
        return by_q, by_k


def is_bearable(sums: Float[Tensor, "M C K"]) -> bool:
    """Whether no channel loses so much over a chunk that the inverse overflows; shapes alone have no numbers."""
    return sums.is_meta or bool(sums[:, -1].min() >= -BEARABLE)


def _at_the_ends(sums: Float[Tensor, "M C E"], document: Document | None) -> tuple[Tensor, Tensor, Tensor]:
    """From the start of the chunk to a token, from a token to the end, over the whole; a state is forgotten where the
    next document starts."""
    end = sums[:, -1:]
    from_start, to_end, whole = sums.exp(), (end - sums).exp_(), end.exp()
    if document is not None:
        last = document[:, -1:]
        from_start, to_end, whole = from_start * (document == 0), to_end * (document == last), whole * (last == 0)
    return from_start, to_end, whole.mT


def _times(few: Tensor, rows: Tensor) -> Tensor:
    """few @ rows; matrices of one or two columns are quicker multiplied out."""
    if few.shape[-1] > 2:
        return few @ rows
    return (few[..., None] * rows[..., None, :, :]).sum(-2)


def _halves(x: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """Views of x[..., C, K]: the early and the late half [..., C / 2 half, half, K] of each part of a chunk."""
    parts = x.unflatten(-2, (-1, 2, half))
    return parts[..., 0, :, :], parts[..., 1, :, :]
