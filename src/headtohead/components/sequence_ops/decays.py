"""Products of decays between the tokens of a chunk, in three ways: one decay for all channels of a head, one for each
channel that is not strong, one for each channel whatever it is (Yang et al. 2023, https://arxiv.org/abs/2312.06635).

G are the sums of the logarithms of the decays from the start of the chunk. Only differences that are not above zero are
exponentiated, or small ones: nothing overflows. All that comes in is M matrices, one for each chunk and head.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import product

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.components.sequence_ops.triangular_inverse import corners

Queries = Float[Tensor, "M P C K"]
"""P kinds of them for each of the C tokens of a chunk."""
Keys = Float[Tensor, "M Q C K"]
"""Q kinds of them."""
Scores = Float[Tensor, "M PC QC"]
"""The scores of all kinds of queries with all kinds of keys."""
Document = Int[Tensor, "M C 1"]
"""The number of documents that have begun in the chunk."""
LARGEST_EXPONENT = 60.0
"""A decay by exp(-60) and its inverse are numbers of float32."""
MILD_EXPONENT = 2.0
"""The exponent of a mild decay: after one by exp(-2) enough is left that the decay's gradient may be a difference of
what was there before."""


class Decay(ABC):
    """The share of each token's write that is left for the later tokens and for the end of the chunk.

    With S the state as the chunk reads it and z what it writes: the output is reads + scores z, and the next chunk's
    state is leaving (passing S + carried^T z).
    """

    scores: Scores
    """q_i^T diag(exp(G_i - G_j)) k_j for j <= i in the same document; the second kind of queries for j < i."""
    read: Float[Tensor, "M PC K"]
    """Queries as they meet the state before the chunk."""
    carried: Float[Tensor, "M QC K"]
    """Keys as they enter the state after the chunk."""
    entering: Float[Tensor, "N G K 1"] | None = None
    """The factor of a state as a chunk takes it over; the chunks of G heads one after the other."""
    passing: Float[Tensor, "M _ 1"] | None = None
    leaving: Float[Tensor, "M K 1"] | None = None

    def __init__(self, queries: Queries, keys: Keys, document: Document | None) -> None:
        self.kinds = (queries.shape[1], keys.shape[1])
        position = torch.arange(queries.shape[2], device=queries.device)
        self.allowed: Tensor = position[:, None] >= position
        if document is not None:
            self.allowed = self.allowed & (document == document.mT)

    def masked(self, scores: Scores, factors: Float[Tensor, "M C C"] | None = None) -> Scores:
        """Set disallowed scores to zero, or, where that is done already, multiply every kind by the factors; in
        place."""
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
    def backward(
        self, by_scores: Scores, by_read: Tensor, by_carried: Tensor, by_passing: Float[Tensor, "M 1 K"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of queries and keys, [M, PC, K] and [M, QC, K], possibly in place of the arguments, and
        of the logarithms of the decays, [M, C, E]."""


class SharedDecay(Decay):
    """One decay for all channels, so that exp(G_i - G_j) multiplies the product."""

    def __init__(self, queries: Queries, keys: Keys, sums: Float[Tensor, "M C 1"], document: Document | None) -> None:
        super().__init__(queries, keys, document)
        self.queries, self.keys = queries.flatten(1, 2), keys.flatten(1, 2)
        self.between = (sums - sums.mT).clamp_(max=0).exp_() * self.allowed
        self.from_start, self.to_end, self.passing = _at_the_ends(sums, document)
        self.scores = self.masked(self.queries @ self.keys.mT, self.between)
        self.read = (queries * self.from_start.unsqueeze(1)).flatten(1, 2)
        self.carried = (keys * self.to_end.unsqueeze(1)).flatten(1, 2)

    def backward(
        self, by_scores: Scores, by_read: Tensor, by_carried: Tensor, by_passing: Float[Tensor, "M 1 K"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        size = self.allowed.shape[-1]
        pairs = (by_scores * self.scores).view(-1, self.kinds[0], size, self.kinds[1], size).sum((1, 3))
        self.masked(by_scores, self.between)
        for part, kinds, factor in zip((by_read, by_carried), self.kinds, (self.from_start, self.to_end), strict=True):
            part.unflatten(1, (kinds, -1)).mul_(factor.unsqueeze(1))
        from_state, to_state = (
            (part * by_part).view(len(part), -1, size, part.shape[-1]).sum((1, 3))
            for part, by_part in ((self.queries, by_read), (self.keys, by_carried))
        )
        assert self.passing is not None, "the ends of a chunk make it"
        by_log_decay = by_decay(pairs, from_state, to_state, by_passing.sum(-1) * self.passing.squeeze(-1))
        by_queries, by_keys = by_read.baddbmm_(by_scores, self.keys), by_carried.baddbmm_(by_scores.mT, self.queries)
        return by_queries, by_keys, by_log_decay[..., None]


class BoundedDecay(Decay):
    """No decay so strong that its product over a chunk overflows: exp(G_i - c) exp(c - G_j), c in the middle.

    Queries and keys take these factors once, in place, and the state those of the middle: a chunk then reads and writes
    it as if there were no decay.
    """

    def __init__(
        self, queries: Queries, keys: Keys, sums: Float[Tensor, "M C K"], document: Document | None, num_chunks: int
    ) -> None:
        super().__init__(queries, keys, document)
        middle = sums[:, sums.shape[1] // 2, None]
        self.of_query = (sums - middle).exp_()
        self.of_key = self.of_query.reciprocal()
        self.queries, self.keys = (
            part.mul_(factor.unsqueeze(1)).flatten(1, 2)
            for part, factor in ((queries, self.of_query), (keys, self.of_key))
        )
        self.scores = self.masked(self.queries @ self.keys.mT)
        self.read, self.carried, self.document = self.queries, self.keys, document
        if document is not None:
            self.read, self.carried = self._of_one_document(self.read, self.carried)
            self.passing = (document[:, -1:] == 0).to(sums.dtype)
        self.entering = middle.mT.exp().unflatten(0, (num_chunks, -1))
        next_middle = torch.cat((self.entering[1:], torch.ones_like(self.entering[:1])))
        self.leaving = (sums[:, -1:] - middle).mT.exp_() * next_middle.flatten(0, 1)

    def _of_one_document(self, read: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        """Restrict reads to the first document of the chunk, and writes to the last."""
        if self.document is None:
            return read, carried
        first, last = self.document == 0, self.document == self.document[:, -1:]
        return read * first.repeat(1, self.kinds[0], 1), carried * last.repeat(1, self.kinds[1], 1)

    def backward(
        self, by_scores: Scores, by_read: Tensor, by_carried: Tensor, by_passing: Float[Tensor, "M 1 K"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients; since every exp(G_i - G_j) multiplies a query of i and a key of j, their gradients give
        that of the decays."""
        self.masked(by_scores)
        by_read, by_carried = self._of_one_document(by_read, by_carried)
        by_end = (self.keys * by_carried).sum(1, keepdim=True)
        by_end += by_passing if self.passing is None else by_passing * self.passing
        by_read, by_carried = by_read.baddbmm_(by_scores, self.keys), by_carried.baddbmm_(by_scores.mT, self.queries)
        by_sums = (self.queries * by_read).unflatten(1, (self.kinds[0], -1)).sum(1)
        by_sums -= (self.keys * by_carried).unflatten(1, (self.kinds[1], -1)).sum(1)
        for part, kinds, factor in zip((by_read, by_carried), self.kinds, (self.of_query, self.of_key), strict=True):
            part.unflatten(1, (kinds, -1)).mul_(factor.unsqueeze(1))
        return by_read, by_carried, ones_up_to(by_sums).mT @ by_sums + by_end


class AnyDecay(Decay):
    """A chunk is halved, and its halves again: late tokens meet early ones at the border between them, where both
    exponents, G_i - G_border and G_border - G_j, are at most zero. C is a power of two."""

    def __init__(self, queries: Queries, keys: Keys, sums: Float[Tensor, "M C K"], document: Document | None) -> None:
        super().__init__(queries, keys, document)
        self.queries, self.keys = queries.unsqueeze(2), keys.unsqueeze(1)  # each kind of one meets each of the other
        self.from_start, self.to_end, self.passing = _at_the_ends(sums, document)
        self.read = (queries * self.from_start.unsqueeze(1)).flatten(1, 2)
        self.carried = (keys * self.to_end.unsqueeze(1)).flatten(1, 2)
        self.levels: list[tuple[Tensor, Tensor]] = []
        scores = torch.diag_embed((self.queries * self.keys).sum(-1))
        half = sums.shape[1] // 2
        while half:
            early, late = _halves(sums[:, None, None], half)
            border = early[..., -1:, :]
            of_late, of_early = (late - border).exp_(), (border - early).exp_()
            self.levels.append((of_late, of_early))
            products = (_halves(self.queries, half)[1] * of_late) @ (_halves(self.keys, half)[0] * of_early).mT
            corners(scores, half).copy_(products)
            half //= 2
        self.scores = self.masked(scores.transpose(2, 3).flatten(1, 2).flatten(2))

    def backward(
        self, by_scores: Scores, by_read: Tensor, by_carried: Tensor, by_passing: Float[Tensor, "M 1 K"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        size, (num_queries, num_keys) = self.allowed.shape[-1], self.kinds
        by_scores = self.masked(by_scores).view(-1, num_queries, size, num_keys, size).transpose(2, 3)
        itself = by_scores.diagonal(dim1=-2, dim2=-1)[..., None]
        by_q = by_read.unflatten(1, (num_queries, size)).mul_(self.from_start.unsqueeze(1))
        by_k = by_carried.unflatten(1, (num_keys, size)).mul_(self.to_end.unsqueeze(1))
        assert self.passing is not None, "the ends of a chunk make it"
        by_log_decay = _from_here((self.queries.squeeze(2) * by_q).sum(1)) + by_passing * self.passing.mT
        by_log_decay = by_log_decay + _before((self.keys.squeeze(1) * by_k).sum(1))
        by_q += (itself * self.keys).sum(2)
        by_k += (itself * self.queries).sum(1)
        for of_late, of_early in self.levels:
            half = of_late.shape[-2]
            queries, keys = _halves(self.queries, half)[1], _halves(self.keys, half)[0]
            corner = corners(by_scores, half)
            by_late = (_times(corner, keys * of_early)).sum(2).mul_(of_late.squeeze(1))
            by_early = (_times(corner.mT, queries * of_late)).sum(1).mul_(of_early.squeeze(1))
            _halves(by_q, half)[1].add_(by_late)
            _halves(by_k, half)[0].add_(by_early)
            early, late = _halves(by_log_decay, half)
            late += _from_here((queries.squeeze(2) * by_late).sum(1))
            early += _before((keys.squeeze(1) * by_early).sum(1))
        return by_q.flatten(1, 2), by_k.flatten(1, 2), by_log_decay


def by_decay(
    pairs: Float[Tensor, "M C C"],
    from_state: Float[Tensor, "M C"],
    to_state: Float[Tensor, "M C"],
    through: Float[Tensor, "M 1"],
) -> Float[Tensor, "M C"]:
    """Return the gradients of the logarithms of the decays, given each factor of a chunk times its gradient: between
    pairs of tokens, from the state before to a token, from a token to the state after, and from state to state.

    The decay of a token is part of every factor from before it to itself or later. All of these are added: as a
    difference of larger sums, which is less work, little would be left of them where heads forget fast.
    """
    from_here = ones_up_to(pairs).mT
    between = torch.bmm(from_here.expand_as(pairs), pairs).tril_(-1).sum(-1)
    earlier = F.pad(to_state[:, :-1].cumsum(-1), (1, 0))
    return between + from_state @ from_here.mT + earlier + through


def ones_up_to(like: Float[Tensor, "*any C E"]) -> Float[Tensor, "C C"]:
    """Return the matrix that sums over the tokens up to each; a product with it is faster than a cumulative sum."""
    return like.new_ones(like.shape[-2], like.shape[-2]).tril_()


def _from_here(x: Float[Tensor, "*any C K"]) -> Float[Tensor, "*any C K"]:
    """Return sums over each token and the later ones."""
    return x if x.shape[-2] == 1 else ones_up_to(x).mT @ x


def _before(x: Float[Tensor, "*any C K"]) -> Float[Tensor, "*any C K"]:
    """Return sums over the tokens before each."""
    return torch.zeros_like(x) if x.shape[-2] == 1 else ones_up_to(x).tril_(-1) @ x


def fits_in_float32(log_decay: Float[Tensor, "*any K"], sums: Float[Tensor, "M C K"]) -> bool:
    """Return whether no channel loses so much over a chunk that the inverse overflows, nor so much at a token that
    differences of large gradients would hide the decay's; shapes alone have no numbers."""
    return sums.is_meta or bool((sums[:, -1].min() >= -LARGEST_EXPONENT) & (log_decay.min() >= -MILD_EXPONENT))


def _at_the_ends(sums: Float[Tensor, "M C E"], document: Document | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the decays from the start of the chunk to a token, from a token to the end, and over the whole chunk; a
    state is forgotten where the next document starts."""
    end = sums[:, -1:]
    from_start, to_end, full = sums.exp(), (end - sums).exp_(), end.exp()
    if document is not None:
        last = document[:, -1:]
        from_start, to_end, full = from_start * (document == 0), to_end * (document == last), full * (last == 0)
    return from_start, to_end, full.mT


def _times(few: Tensor, rows: Tensor) -> Tensor:
    """Return few @ rows; matrices of one or two columns are faster multiplied out."""
    if few.shape[-1] > 2:
        return few @ rows
    return (few[..., None] * rows[..., None, :, :]).sum(-2)


def _halves(x: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """Return views of x[..., C, K]: the early and the late half [..., C / 2 half, half, K] of each part of a chunk."""
    parts = x.unflatten(-2, (-1, 2, half))
    return parts[..., 0, :, :], parts[..., 1, :, :]
