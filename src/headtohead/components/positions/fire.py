"""Functional interpolation: scores change by a learned function of the distance, taken as a share of the query's
position (Li et al. 2023, https://arxiv.org/abs/2310.04418)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction, FunctionCtx

from headtohead.components.component import Grid, Position
from headtohead.components.costs import CostContext, Costs
from headtohead.components.precision import at_least_float32
from headtohead.ranges import Positive, Width

_EPSILON = 1e-6  # the authors' addition to the divisor


class Fire(Position):
    """f(log(1 + c |i - j|) / log(1 + c max(i, T))) for query i and key j: each layer has its own rate c, threshold T
    and perceptron f, whose one hidden layer of rectified units gives the bias of every head (equation 6).

    A perceptron of one number with rectified units is linear between the points at which a unit switches: the bias is
    looked up there, so that no pair of tokens needs a matrix product. T, which stays positive, is learned as its
    logarithm; the authors' code has a multiple of its start.
    """

    biases_scores = True
    shared_by_layers = False
    float32_parameters = ("rate", "log_threshold")

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        hidden_width: Width = 32,
        initial_rate: Positive = 0.1,
        initial_threshold: Positive = 512.0,
    ) -> None:
        super().__init__()
        del d_model, max_length, causal, grid
        self.initial_rate, self.initial_threshold = initial_rate, initial_threshold
        self.rate, self.log_threshold = (nn.Parameter(torch.empty(())) for _ in range(2))
        self.hidden_weights, self.hidden_biases = (nn.Parameter(torch.empty(hidden_width)) for _ in range(2))
        self.head_weights = nn.Parameter(torch.empty(num_heads, hidden_width))
        self.head_biases = nn.Parameter(torch.empty(num_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.rate, self.initial_rate)
        nn.init.constant_(self.log_threshold, math.log(self.initial_threshold))
        fan_out = self.head_weights.shape[1] ** -0.5
        for parameter in (self.hidden_weights, self.hidden_biases):
            nn.init.uniform_(parameter, -1.0, 1.0)
        for parameter in (self.head_weights, self.head_biases):
            nn.init.uniform_(parameter, -fan_out, fan_out)

    def bias(
        self,
        queries: Float[Tensor, "B H L K"] | None,
        query_positions: Int[Tensor, "#B L"],
        key_positions: Int[Tensor, "#B M"],
    ) -> Float[Tensor, "#B H L M"]:
        del queries
        exact = at_least_float32(self.rate.dtype)
        distance = (query_positions[:, :, None] - key_positions[:, None, :]).abs()
        perceptron = (self.hidden_weights, self.hidden_biases, self.head_weights, self.head_biases)
        bias: Tensor = _Interpolation.apply(  # type: ignore[no-untyped-call]
            distance.to(exact),
            query_positions[:, :, None].to(exact, copy=True),
            self.rate,
            self.log_threshold,
            *perceptron,
        )
        return bias

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves the bias and what it was made of."""
        pairs = query.length**2
        saved = pairs * query.bytes_per_biased_pair + self.bytes_of_bias(query, query.length, pairs)
        return Costs.of(self, activation_bytes=saved)

    def bytes_of_bias(self, query: CostContext, num_queries: int, num_pairs: int) -> int:
        """Return the bytes of the distances and of the queries' positions."""
        return (num_pairs + num_queries) * max(4, query.bytes_per_element) if self.bias_learns else 0


class _Pieces(NamedTuple):
    """A perceptron of one number, piece by piece."""

    knots: Float[Tensor, " F"]
    """The inputs at which a hidden unit switches, in ascending order."""
    active: Bool[Tensor, "F P"]
    """The mask of hidden units that are above zero in each piece."""
    slopes: Float[Tensor, "H P"]
    offsets: Float[Tensor, "H P"]


def _pieces(hidden_weights: Tensor, hidden_biases: Tensor, head_weights: Tensor, head_biases: Tensor) -> _Pieces:
    constant = hidden_weights == 0
    knots, order = (-hidden_biases / hidden_weights).masked_fill(constant, torch.inf).sort()
    rank = order.argsort()[:, None]
    pieces = torch.arange(len(order) + 1, device=order.device)
    active = torch.where(hidden_weights[:, None] > 0, pieces > rank, pieces <= rank)
    active = torch.where(constant[:, None], hidden_biases[:, None] > 0, active)
    slopes, offsets = (((head_weights * part)[..., None] * active).sum(1) for part in (hidden_weights, hidden_biases))
    return _Pieces(knots.detach(), active, slopes, offsets + head_biases[:, None])


class _Shares(NamedTuple):
    """The distances as shares of what the queries' positions allow, and what these are made of."""

    rate: Float[Tensor, ""]
    furthest: Float[Tensor, "B L 1"]
    """The query's position, or the threshold where that is larger."""
    divisor: Float[Tensor, "B L 1"]
    share: Float[Tensor, "B L M"]


def _shares(distance: Tensor, position: Tensor, rate: Tensor, log_threshold: Tensor) -> _Shares:
    rate = rate.to(distance.dtype).abs()
    furthest = position.maximum(log_threshold.to(distance.dtype).exp())
    divisor = (rate * furthest).log1p() + _EPSILON
    return _Shares(rate, furthest, divisor, (rate * distance).log1p() / divisor)


class _Interpolation(torch.autograd.Function):
    """Saves the distances alone; the backward pass computes the pieces and their inputs again."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        distance: Tensor,
        position: Tensor,
        rate: Tensor,
        log_threshold: Tensor,
        *perceptron: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(distance, position, rate, log_threshold, *perceptron)
        pieces = _pieces(*(part.to(distance.dtype) for part in perceptron))
        share = _shares(distance, position, rate, log_threshold).share
        index = torch.bucketize(share, pieces.knots)
        return _looked_up(pieces.slopes, index).mul_(share[:, None]).add_(_looked_up(pieces.offsets, index))

    @staticmethod
    def backward(ctx: BackwardCFunction, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # torch's stub declares one
        distance, position, own_rate, log_threshold, *own = saved
        perceptron = [part.to(distance.dtype) for part in own]
        pieces = _pieces(*perceptron)
        rate, furthest, divisor, share = _shares(distance, position, own_rate, log_threshold)
        index = torch.bucketize(share.detach(), pieces.knots)
        of_logarithm = (grad * _looked_up(pieces.slopes, index)).sum(1) / divisor
        of_divisor = -(of_logarithm * share).sum(-1, keepdim=True)
        of_rate = (of_logarithm * distance / (1 + rate * distance)).sum()
        of_rate = of_rate + (of_divisor * furthest / (1 + rate * furthest)).sum()
        of_threshold = (of_divisor * rate * furthest / (1 + rate * furthest) * (furthest > position)).sum()
        of_slopes = _summed(grad * share[:, None], index, pieces.slopes)
        of_offsets = _summed(grad, index, pieces.slopes)
        of_weights = _of_perceptron(of_slopes, of_offsets, pieces.active, *perceptron)
        return None, None, of_rate * own_rate.sign(), of_threshold, *of_weights


def _looked_up(table: Float[Tensor, "H P"], index: Int[Tensor, "B L M"]) -> Float[Tensor, "B H L M"]:
    """Return the entries of every head for the piece of each pair."""
    return table.index_select(1, index.flatten()).view(-1, *index.shape).transpose(0, 1)


def _summed(
    values: Float[Tensor, "B H L M"], index: Int[Tensor, "B L M"], like: Float[Tensor, "H P"]
) -> Float[Tensor, "H P"]:
    """Return the sums over the pairs of each piece: by query first, so that few threads of a GPU add to one number."""
    by_query = like.new_zeros(*values.shape[:3], like.shape[1])
    return by_query.scatter_add(3, index[:, None].expand_as(values), values).sum((0, 2))


def _of_perceptron(
    of_slopes: Float[Tensor, "H P"],
    of_offsets: Float[Tensor, "H P"],
    active: Bool[Tensor, "F P"],
    hidden_weights: Float[Tensor, " F"],
    hidden_biases: Float[Tensor, " F"],
    head_weights: Float[Tensor, "H F"],
    head_biases: Float[Tensor, " H"],
) -> tuple[Tensor, ...]:
    """Return the gradients of a perceptron's parameters from those of its pieces."""
    del head_biases
    by_weight, by_bias = ((part[:, None] * active).sum(-1) for part in (of_slopes, of_offsets))
    return (
        (by_weight * head_weights).sum(0),
        (by_bias * head_weights).sum(0),
        by_weight * hidden_weights + by_bias * hidden_biases,
        of_offsets.sum(-1),
    )
